#include "train/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "base/step_error.h"

namespace cadre::train {
namespace {

// One sequence of new tokens at positions [first, first + count).
struct Prompt {
  Prompt(Engine& engine, int64_t first, int64_t count)
      : tokens(allocate(engine.activations(), DType::kI32, {count})),
        positions(allocate(engine.activations(), DType::kI32, {count})) {
    if (!engine.context().is_meta()) {
      const std::span<int32_t> values = positions.view().flat<int32_t>();
      std::iota(values.begin(), values.end(), static_cast<int32_t>(first));
    }
  }

  model::Batch batch() const {
    return {.sequences = 1,
            .sequence_length = tokens.view().shape[0],
            .token_T = tokens.view(),
            .position_T = positions.view(),
            .training = false};
  }

  OwnedTensor tokens, positions;
};

OwnedTensor feed(Engine& engine, model::Stage::Cache& cache, std::span<const int32_t> ids) {
  const Prompt prompt(engine, cache.used, static_cast<int64_t>(ids.size()));
  if (!engine.context().is_meta()) {
    std::ranges::copy(ids, prompt.tokens.view().flat<int32_t>().begin());
  }
  engine.forget_bookings();
  return engine.stage().next_logits(engine.context(), engine.activations(), prompt.batch(), cache);
}

// Candidates, the most likely first, cut to the k first and to the probability p.
std::vector<int32_t> candidates(std::span<const float> logits, const GenerationOptions& options,
                                std::vector<double>& probabilities) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    const float left = logits[static_cast<size_t>(a)];
    const float right = logits[static_cast<size_t>(b)];
    return left != right ? left > right : a < b;
  };
  std::ranges::sort(order, likelier);
  if (options.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<size_t>(options.top_k)));
  }
  const double largest = logits[static_cast<size_t>(order.front())];
  double sum = 0.0;
  for (const int32_t id : order) {
    const double logit = logits[static_cast<size_t>(id)];
    probabilities.push_back(std::exp((logit - largest) / options.temperature));
    sum += probabilities.back();
  }
  double reached = 0.0;
  for (size_t i = 0; i < order.size(); ++i) {
    reached += probabilities[i] / sum;
    if (reached >= options.top_p) {
      order.resize(i + 1);
      probabilities.resize(i + 1);
    }
  }
  return order;
}

}  // namespace

int32_t choose_token(std::span<const float> logits, const GenerationOptions& options,
                     int64_t index) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) {
    throw StepError(
        "generate: a logit is not finite; the model's weights are damaged, or too large for "
        "the precision");
  }
  if (options.temperature <= 0.0) {
    return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
  }
  std::vector<double> probabilities;
  const std::vector<int32_t> order = candidates(logits, options, probabilities);
  const RandomKey key{.seed = options.seed, .stream = stream_of("generation")};
  double left =
      uniform_at(key, index) * std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    left -= probabilities[i];
    if (left < 0.0) {
      return order[i];
    }
  }
  return order.back();
}

void generate(Engine& engine, std::span<const int32_t> prompt, const GenerationOptions& options,
              const std::function<void(int32_t)>& emit) {
  CADRE_CHECK(!prompt.empty(), "a prompt has at least one token");
  const auto length = static_cast<int64_t>(prompt.size());
  CADRE_CHECK(length + options.tokens <= engine.positions(), length, " and ", options.tokens,
              " tokens in ", engine.positions(), " positions");
  model::Stage::Cache cache =
      engine.stage().make_cache(engine.activations(), 1, length + options.tokens);
  OwnedTensor logits = feed(engine, cache, prompt);
  for (int64_t index = 0; index < options.tokens; ++index) {
    const int32_t id = choose_token(logits.view().flat<float>(), options, index);
    if (std::ranges::find(options.stop, int64_t{id}) != options.stop.end()) {
      return;
    }
    emit(id);
    if (index + 1 < options.tokens) {
      logits.reset();
      logits = feed(engine, cache, std::span(&id, 1));
    }
  }
}

void rehearse_generation(Engine& engine, const GenerationLength& length) {
  model::Stage::Cache cache =
      engine.stage().make_cache(engine.activations(), 1, length.positions());
  const std::vector<int32_t> ids(static_cast<size_t>(length.prompt), 0);
  OwnedTensor logits = feed(engine, cache, ids);
  for (int64_t index = 1; index < length.tokens; ++index) {
    logits.reset();
    logits = feed(engine, cache, std::span(ids).first(1));
  }
}

}  // namespace cadre::train
