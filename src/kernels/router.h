// Which experts each token is sent to, and with which weights.
//
// Legend: T tokens, E experts, K experts of each token, B sequences of T / B tokens. Logits, scores
// and weights are f32, indices i32.
//
// Scores are softmax(logits) (Mixtral, Qwen3-MoE) or sigmoid(logits) (DeepSeek-V3). Chosen are the
// K experts with the largest score + bias (the bias moves the choice alone: Wang et al., 2024); of
// equal ones the first. With groups, only experts of the best `groups_kept` groups are chosen from;
// a group is as good as its best expert, or as its best two together. The weights are the chosen
// scores, divided by their sum if `normalise` (of a softmax the same as a softmax over the chosen
// logits), times `scale`.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::kernels {

enum class RouterScores { kSoftmax, kSigmoid };

struct RouterOptions {
  RouterScores scores = RouterScores::kSoftmax;
  int64_t groups = 1;  // of adjacent experts, equally many each
  int64_t groups_kept = 1;
  int64_t experts_of_group_score = 1;  // 1 or 2
  bool normalise = true;
  float scale = 1.0f;
};

// `bias_E` may be empty.
void route_forward(Context& context, Tensor expert_TK, Tensor weight_TK, ConstTensor logits_TE,
                   ConstTensor bias_E, const RouterOptions& options);

// What the router's own losses need, of each sequence's tokens that have a target. A row holds
//   count[e]        times that expert e was chosen
//   probability[e]  sum of score[e] / sum of all scores
//   targets         tokens
//   squares         sum of (log sum exp(logits))^2
// side by side: 2E + 2 numbers. Sequences that lie in parts on several ranks: add the rows up.
// Overwrites.
void router_statistics(Context& context, Tensor statistics_BS, ConstTensor logits_TE,
                       ConstTensor expert_TK, ConstTensor target_T, RouterScores scores);

// Coefficients of the losses of one router:
//   balance  of  sum over sequences of  E / (K targets) * sum over e of count[e] probability[e],
//            which is the number of targets where all experts have as many tokens
//   z        of  the sum over sequences of squares
// Divided by the number of targets of the global batch, they are means over its tokens.
struct RouterLossOptions {
  float balance = 0.0f;
  float z = 0.0f;
};

//   loss_1 += both losses, with their coefficients
void router_loss(Context& context, Tensor loss_1, ConstTensor statistics_BS, int64_t slots,
                 const RouterLossOptions& options);

// The gradient of the weights and of both losses (times loss_scale), together. dlogits is f32, bf16
// or f16. `statistics_BS` may be empty if both coefficients are 0.
struct RouterBackward {
  ConstTensor dweight_TK;
  ConstTensor logits_TE;
  ConstTensor expert_TK;
  ConstTensor target_T;
  ConstTensor statistics_BS;
};
void route_backward(Context& context, Tensor dlogits_TE, const RouterBackward& inputs,
                    const RouterOptions& options, const RouterLossOptions& losses,
                    float loss_scale);

//   excess[e] += (slots sent to e) - T K / E      f32
//
// Its sign is the direction in which a balancing bias moves down.
void count_excess(Context& context, Tensor excess_E, ConstTensor expert_TK);

struct RouterBackend {
  Target target;
  decltype(&kernels::route_forward) forward;
  int64_t (*plan_statistics_bytes)(ConstTensor statistics_BS);
  void (*statistics)(Context& context, Tensor statistics_BS, ConstTensor logits_TE,
                     ConstTensor expert_TK, ConstTensor target_T, RouterScores scores,
                     std::byte* workspace);
  decltype(&kernels::router_loss) loss;
  decltype(&kernels::route_backward) backward;
  decltype(&kernels::count_excess) count_excess;
};

namespace cpu {
extern const RouterBackend kRouterPlain;
}

}  // namespace cadre::kernels
