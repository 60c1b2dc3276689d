// Routing in plain C++: a token's logits are few beside what its experts compute.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "base/check.h"
#include "kernels/cpu/plain.h"
#include "kernels/cpu/rows.h"
#include "kernels/cross_entropy.h"
#include "kernels/router.h"

namespace cadre::kernels::cpu {
namespace {

constexpr float kSumFloor = 1e-20f;  // scores that are all 0 have weights of 0

constexpr int64_t kExpertsMax = 4096;  // of one layer; what a thread has room for on its stack

struct Statistics {
  std::span<const float> count, probability;
  float targets = 0.0f;
};

Statistics statistics_of(ConstTensor statistics_BS, int64_t sequence) {
  const std::span<const float> row = statistics_BS.row<float>(sequence);
  const size_t experts = row.size() / 2 - 1;
  return {.count = row.first(experts),
          .probability = row.subspan(experts, experts),
          .targets = row[2 * experts]};
}

// Writes the scores and returns log(sum(exp(logits))).
float score(std::span<float> scores, std::span<const float> logits, RouterScores kind) {
  const float most = *std::ranges::max_element(logits);
  float sum = 0.0f;
  for (size_t e = 0; e < logits.size(); ++e) {
    scores[e] = std::exp(logits[e] - most);
    sum += scores[e];
  }
  for (size_t e = 0; e < logits.size(); ++e) {
    scores[e] =
        kind == RouterScores::kSoftmax ? scores[e] / sum : 1.0f / (1.0f + std::exp(-logits[e]));
  }
  return most + std::log(sum);
}

// The largest of `values` that is not taken; the first of equal ones. There is one, also among
// NaNs.
size_t best_of(std::span<const float> values, std::span<const bool> taken) {
  size_t best = values.size();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!taken[i] && (best == values.size() || values[i] > values[best])) {
      best = i;
    }
  }
  return best;
}

// The sum of the largest, or the two largest, of a group.
float group_score(std::span<const float> choice, int64_t experts) {
  float first = -std::numeric_limits<float>::infinity();
  float second = first;
  for (const float value : choice) {
    if (value > first) {
      second = first;
      first = value;
    } else {
      second = std::max(second, value);
    }
  }
  return experts == 2 && choice.size() > 1 ? first + second : first;
}

// Takes the experts of all groups but the best ones out of the choice.
void drop_groups(std::span<bool> taken, std::span<const float> choice,
                 const RouterOptions& options) {
  const auto groups = static_cast<size_t>(options.groups);
  const size_t size = choice.size() / groups;
  std::array<float, kExpertsMax> score_of;
  std::array<bool, kExpertsMax> kept;
  for (size_t g = 0; g < groups; ++g) {
    score_of[g] = group_score(choice.subspan(g * size, size), options.experts_of_group_score);
    kept[g] = false;
  }
  for (int64_t i = 0; i < options.groups_kept; ++i) {
    kept[best_of({score_of.data(), groups}, {kept.data(), groups})] = true;
  }
  for (size_t g = 0; g < groups; ++g) {
    std::ranges::fill(taken.subspan(g * size, size), !kept[g]);
  }
}

void route(std::span<int32_t> expert, std::span<float> weight, std::span<const float> logits,
           const float* bias, const RouterOptions& options) {
  const size_t experts = logits.size();
  std::array<float, kExpertsMax> scores_memory, choice_memory;
  std::array<bool, kExpertsMax> taken_memory;
  const std::span<float> scores(scores_memory.data(), experts);
  const std::span<float> choice(choice_memory.data(), experts);
  const std::span<bool> taken(taken_memory.data(), experts);
  score(scores, logits, options.scores);
  for (size_t e = 0; e < experts; ++e) {
    choice[e] = scores[e] + (bias == nullptr ? 0.0f : bias[e]);
    taken[e] = false;
  }
  if (options.groups > 1) {
    drop_groups(taken, choice, options);
  }
  float sum = 0.0f;
  for (size_t k = 0; k < expert.size(); ++k) {
    const size_t best = best_of(choice, taken);
    taken[best] = true;
    expert[k] = static_cast<int32_t>(best);
    weight[k] = scores[best];
    sum += scores[best];
  }
  for (float& one : weight) {
    one *= options.normalise ? options.scale / (sum + kSumFloor) : options.scale;
  }
}

void forward(Context& context, Tensor expert_TK, Tensor weight_TK, ConstTensor logits_TE,
             ConstTensor bias_E, const RouterOptions& options) {
  const int64_t experts = logits_TE.shape[1];
  CADRE_CHECK(experts <= kExpertsMax, experts, " experts, the most are ", kExpertsMax);
  const float* const bias = bias_E.empty() ? nullptr : bias_E.begin<float>();
  const RowTiles tiles =
      row_tiles(logits_TE.shape[0], experts * expert_TK.shape[1], kTilesUnbounded);
  context.threads.run(tiles.count(), [&](int64_t tile, int) {
    for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
      route(expert_TK.row<int32_t>(t), weight_TK.row<float>(t), logits_TE.row<float>(t), bias,
            options);
    }
  });
}

// ---- losses

// Sums in double, of which every sequence has a row of its own.
int64_t plan_statistics_bytes(ConstTensor statistics_BS) {
  return statistics_BS.shape.elements() * static_cast<int64_t>(sizeof(double));
}

void add_token(std::span<double> sums, std::span<const float> logits,
               std::span<const int32_t> expert, RouterScores kind) {
  const size_t experts = logits.size();
  std::array<float, kExpertsMax> memory;
  const std::span<float> scores(memory.data(), experts);
  const double lse = score(scores, logits, kind);
  double sum = 0.0;
  for (const float one : scores) {
    sum += one;
  }
  for (size_t e = 0; e < experts; ++e) {
    sums[experts + e] += scores[e] / (sum + double{kSumFloor});
  }
  for (const int32_t chosen : expert) {
    sums[static_cast<size_t>(chosen)] += 1.0;
  }
  sums[2 * experts] += 1.0;
  sums[2 * experts + 1] += lse * lse;
}

void statistics(Context& context, Tensor statistics_BS, ConstTensor logits_TE,
                ConstTensor expert_TK, ConstTensor target_T, RouterScores scores,
                std::byte* workspace) {
  const int64_t length = logits_TE.shape[0] / statistics_BS.shape[0];
  const auto width = static_cast<size_t>(statistics_BS.shape[1]);
  const int32_t* const target = target_T.begin<int32_t>();
  auto* const all_sums = reinterpret_cast<double*>(workspace);
  context.threads.run(statistics_BS.shape[0], [&](int64_t b, int) {
    const std::span<double> sums(all_sums + static_cast<size_t>(b) * width, width);
    std::ranges::fill(sums, 0.0);
    for (int64_t t = b * length; t < (b + 1) * length; ++t) {
      if (target[t] != kIgnoredTarget) {
        add_token(sums, logits_TE.row<float>(t), expert_TK.row<int32_t>(t), scores);
      }
    }
    std::ranges::transform(sums, statistics_BS.row<float>(b).begin(),
                           [](double sum) { return static_cast<float>(sum); });
  });
}

void loss(Context&, Tensor loss_1, ConstTensor statistics_BS, int64_t slots,
          const RouterLossOptions& options) {
  double sum = 0.0;
  for (int64_t b = 0; b < statistics_BS.shape[0]; ++b) {
    const Statistics of = statistics_of(statistics_BS, b);
    double products = 0.0;
    for (size_t e = 0; e < of.count.size(); ++e) {
      products += double{of.count[e]} * double{of.probability[e]};
    }
    if (of.targets > 0.0f) {
      sum += double{options.balance} * static_cast<double>(of.count.size()) * products /
             (static_cast<double>(slots) * double{of.targets});
    }
    sum += double{options.z} * double{statistics_BS.row<float>(b).back()};
  }
  loss_1.begin<float>()[0] += static_cast<float>(sum);
}

// ---- backward

// Adds the balance loss's gradient of the scores: that of score[e] / sum of all.
void add_balance(std::span<float> dscores, std::span<const float> scores, const Statistics& of,
                 float factor) {
  float sum = kSumFloor;
  for (const float one : scores) {
    sum += one;
  }
  float mean = 0.0f;
  for (size_t e = 0; e < scores.size(); ++e) {
    mean += of.count[e] * scores[e] / sum;
  }
  for (size_t e = 0; e < scores.size(); ++e) {
    dscores[e] += factor * (of.count[e] - mean) / sum;
  }
}

// Adds the gradient of the chosen scores.
void add_chosen(std::span<float> dscores, std::span<const float> scores,
                std::span<const int32_t> expert, std::span<const float> dweight,
                const RouterOptions& options) {
  float sum = kSumFloor;
  float mean = 0.0f;
  for (size_t k = 0; k < expert.size(); ++k) {
    const float chosen = scores[static_cast<size_t>(expert[k])];
    sum += chosen;
    mean += dweight[k] * chosen;
  }
  mean /= sum;
  for (size_t k = 0; k < expert.size(); ++k) {
    dscores[static_cast<size_t>(expert[k])] +=
        options.normalise ? options.scale * (dweight[k] - mean) / sum : options.scale * dweight[k];
  }
}

// The gradient of the logits takes the place of that of the scores.
void through_scores(std::span<float> gradient, std::span<const float> scores, RouterScores kind) {
  float mean = 0.0f;
  for (size_t e = 0; e < scores.size(); ++e) {
    mean += gradient[e] * scores[e];
  }
  for (size_t e = 0; e < scores.size(); ++e) {
    gradient[e] = kind == RouterScores::kSoftmax ? scores[e] * (gradient[e] - mean)
                                                 : gradient[e] * scores[e] * (1.0f - scores[e]);
  }
}

struct TokenLosses {
  float balance = 0.0f;  // times count[e] the gradient of the token's share of expert e
  float z = 0.0f;
  Statistics of = {};
};

TokenLosses losses_of(const RouterBackward& inputs, int64_t token, const RouterLossOptions& losses,
                      float loss_scale) {
  const bool has_losses = losses.balance != 0.0f || losses.z != 0.0f;
  if (!has_losses || inputs.target_T.begin<int32_t>()[token] == kIgnoredTarget) {
    return {};
  }
  const int64_t length = inputs.logits_TE.shape[0] / inputs.statistics_BS.shape[0];
  TokenLosses result{.z = loss_scale * losses.z,
                     .of = statistics_of(inputs.statistics_BS, token / length)};
  const auto experts = static_cast<float>(inputs.logits_TE.shape[1]);
  const auto slots = static_cast<float>(inputs.expert_TK.shape[1]);
  result.balance = loss_scale * losses.balance * experts / (slots * result.of.targets);
  return result;
}

void token_backward(std::span<float> gradient, const RouterBackward& inputs, int64_t token,
                    const RouterOptions& options, const TokenLosses& losses) {
  const std::span<const float> logits = inputs.logits_TE.row<float>(token);
  std::array<float, kExpertsMax> memory;
  const std::span<float> scores(memory.data(), logits.size());
  const float lse = score(scores, logits, options.scores);
  std::ranges::fill(gradient, 0.0f);
  add_chosen(gradient, scores, inputs.expert_TK.row<int32_t>(token),
             inputs.dweight_TK.row<float>(token), options);
  if (losses.balance != 0.0f) {
    add_balance(gradient, scores, losses.of, losses.balance);
  }
  through_scores(gradient, scores, options.scores);
  if (losses.z != 0.0f) {
    for (size_t e = 0; e < logits.size(); ++e) {
      gradient[e] += 2.0f * losses.z * lse * std::exp(logits[e] - lse);
    }
  }
}

void backward(Context& context, Tensor dlogits_TE, const RouterBackward& inputs,
              const RouterOptions& options, const RouterLossOptions& losses, float loss_scale) {
  const auto experts = static_cast<size_t>(dlogits_TE.shape[1]);
  CADRE_CHECK(dlogits_TE.shape[1] <= kExpertsMax, experts, " experts, the most are ", kExpertsMax);
  const Rows rows(dlogits_TE);
  const RowTiles tiles = row_tiles(rows.count(), dlogits_TE.shape[1], kTilesUnbounded);
  with_element(dlogits_TE.dtype, [&]<typename Element>(Element) {
    context.threads.run(tiles.count(), [&](int64_t tile, int) {
      std::array<float, kExpertsMax> gradient;
      for (int64_t t = tiles.first(tile); t < tiles.end(tile); ++t) {
        token_backward({gradient.data(), experts}, inputs, t, options,
                       losses_of(inputs, t, losses, loss_scale));
        for (size_t e = 0; e < experts; ++e) {
          store<Element>(rows.row(t), static_cast<int64_t>(e), gradient[e]);
        }
      }
    });
  });
}

// Counts are whole numbers, exact in f32 up to 2^24 of a micro-batch and expert.
void excess(Context&, Tensor excess_E, ConstTensor expert_TK) {
  const std::span<float> sums = excess_E.flat<float>();
  for (float& sum : sums) {
    sum -= static_cast<float>(expert_TK.shape.elements()) / static_cast<float>(sums.size());
  }
  for (const int32_t chosen : expert_TK.flat<int32_t>()) {
    sums[static_cast<size_t>(chosen)] += 1.0f;
  }
}

}  // namespace

const RouterBackend kRouterPlain{.target = Target::kCpu,
                                 .forward = forward,
                                 .plan_statistics_bytes = plan_statistics_bytes,
                                 .statistics = statistics,
                                 .loss = loss,
                                 .backward = backward,
                                 .count_excess = excess};

}  // namespace cadre::kernels::cpu
