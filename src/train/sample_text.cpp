#include "train/sample_text.h"

#include <algorithm>

#include "train/generation.h"

namespace cadre::train {
namespace {

// A model needs something to begin with: the prompt, or else what begins or ends a document.
std::vector<int32_t> prompt_ids(const RunSetup& setup) {
  std::vector<int32_t> ids = setup.tokenizer->encode(setup.spec.sample.prompt);
  if (ids.empty()) {
    const std::optional<int32_t> bos = setup.tokenizer->bos_id();
    ids.push_back(bos ? *bos : setup.tokenizer->eos_id().value_or(0));
  }
  const auto room = static_cast<size_t>(std::max<int64_t>(1, setup.spec.data.sequence_length / 2));
  ids.resize(std::min(ids.size(), room));
  return ids;
}

}  // namespace

GenerationLength sample_length(const RunSetup& setup) {
  if (setup.tokenizer == nullptr || setup.spec.sample.tokens == 0) {
    return {};
  }
  const auto prompt = static_cast<int64_t>(prompt_ids(setup).size());
  return {.prompt = prompt,
          .tokens = std::min(setup.spec.sample.tokens, setup.spec.data.sequence_length - prompt)};
}

std::string sample_text(Engine& engine, const RunSetup& setup) {
  const SampleSpec& sample = setup.spec.sample;
  const std::vector<int32_t> prompt = prompt_ids(setup);
  std::vector<int32_t> ids = prompt;
  generate(engine, prompt,
           {.tokens = sample_length(setup).tokens,
            .temperature = sample.temperature,
            .top_k = sample.top_k,
            .top_p = sample.top_p,
            .seed = sample.seed,
            .stop = setup.model.eos_token_ids},
           [&](int32_t id) { ids.push_back(id); });
  return setup.tokenizer->decode(ids, {.skip_special = true});
}

}  // namespace cadre::train
