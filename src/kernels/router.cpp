#include "kernels/router.h"

#include <string_view>

#include "base/check.h"
#include "kernels/backend.h"
#include "kernels/shapes.h"

namespace cadre::kernels {
namespace {

constexpr const RouterBackend* kBackends[] = {&cpu::kRouterPlain};

// An exponential counts as one flop.
constexpr int64_t kScoreFlops = 4;

void check_choice(std::string_view op, ConstTensor expert_TK, ConstTensor logits_TE) {
  CADRE_CHECK_EQ(logits_TE.shape.rank(), 2);
  check_packed_f32(op, logits_TE, logits_TE.shape);
  CADRE_CHECK(expert_TK.dtype == DType::kI32 && expert_TK.packed() && expert_TK.shape.rank() == 2 &&
                  expert_TK.shape[0] == logits_TE.shape[0] &&
                  expert_TK.shape[1] <= logits_TE.shape[1],
              op, ": experts are ", name_of(expert_TK.dtype), " of shape ", expert_TK.shape,
              " for logits of shape ", logits_TE.shape);
}

void check_groups(std::string_view op, const RouterOptions& options, int64_t experts,
                  int64_t slots) {
  CADRE_CHECK(options.groups > 0 && experts % options.groups == 0 && options.groups_kept > 0 &&
                  options.groups_kept <= options.groups &&
                  slots <= experts / options.groups * options.groups_kept,
              op, ": ", slots, " of ", experts, " experts from ", options.groups_kept, " of ",
              options.groups, " groups");
  CADRE_CHECK(options.experts_of_group_score == 1 || options.experts_of_group_score == 2, op);
}

void check_statistics(std::string_view op, ConstTensor statistics_BS, ConstTensor target_T,
                      ConstTensor logits_TE) {
  const int64_t tokens = logits_TE.shape[0];
  check_packed_f32(op, statistics_BS, {statistics_BS.shape[0], 2 * logits_TE.shape[1] + 2});
  CADRE_CHECK(statistics_BS.shape[0] > 0 && tokens % statistics_BS.shape[0] == 0, op, ": ", tokens,
              " tokens of ", statistics_BS.shape[0], " sequences");
  CADRE_CHECK(target_T.dtype == DType::kI32 && target_T.packed(), op, ": targets must be packed");
  CADRE_CHECK_EQ(target_T.shape, Shape{tokens});
}

}  // namespace

void route_forward(Context& context, Tensor expert_TK, Tensor weight_TK, ConstTensor logits_TE,
                   ConstTensor bias_E, const RouterOptions& options) {
  constexpr std::string_view kOp = "route_forward";
  check_choice(kOp, expert_TK, logits_TE);
  check_packed_f32(kOp, weight_TK, expert_TK.shape);
  if (!bias_E.empty()) {
    check_packed_f32(kOp, bias_E, Shape{logits_TE.shape[1]});
  }
  check_groups(kOp, options, logits_TE.shape[1], expert_TK.shape[1]);
  const RouterBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp,
               .flops = (kScoreFlops + expert_TK.shape[1]) * logits_TE.shape.elements(),
               .bytes_read = logits_TE.bytes() + (bias_E.empty() ? 0 : bias_E.bytes()),
               .bytes_written = expert_TK.bytes() + weight_TK.bytes()});
  if (!context.is_meta()) {
    backend.forward(context, expert_TK, weight_TK, logits_TE, bias_E, options);
  }
}

void router_statistics(Context& context, Tensor statistics_BS, ConstTensor logits_TE,
                       ConstTensor expert_TK, ConstTensor target_T, RouterScores scores) {
  constexpr std::string_view kOp = "router_statistics";
  check_choice(kOp, expert_TK, logits_TE);
  check_statistics(kOp, statistics_BS, target_T, logits_TE);
  const RouterBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Arena::Block workspace =
      context.workspace.allocate(backend.plan_statistics_bytes(statistics_BS));
  const Trace::Span span = context.trace.book(
      BookedOp{.name = kOp,
               .flops = (kScoreFlops + 1) * logits_TE.shape.elements(),
               .bytes_read = logits_TE.bytes() + expert_TK.bytes() + target_T.bytes(),
               .bytes_written = statistics_BS.bytes()});
  if (!context.is_meta()) {
    backend.statistics(context, statistics_BS, logits_TE, expert_TK, target_T, scores,
                       workspace.data());
  }
}

void router_loss(Context& context, Tensor loss_1, ConstTensor statistics_BS, int64_t slots,
                 const RouterLossOptions& options) {
  constexpr std::string_view kOp = "router_loss";
  check_packed_f32(kOp, loss_1, Shape{1});
  check_packed_f32(kOp, statistics_BS, statistics_BS.shape);
  CADRE_CHECK(statistics_BS.shape.rank() == 2 && statistics_BS.shape[1] % 2 == 0 && slots > 0, kOp,
              ": statistics of shape ", statistics_BS.shape, " of ", slots, " experts a token");
  const RouterBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span = context.trace.book(BookedOp{.name = kOp,
                                                       .flops = statistics_BS.shape.elements(),
                                                       .bytes_read = statistics_BS.bytes(),
                                                       .bytes_written = loss_1.bytes()});
  if (!context.is_meta()) {
    backend.loss(context, loss_1, statistics_BS, slots, options);
  }
}

void route_backward(Context& context, Tensor dlogits_TE, const RouterBackward& inputs,
                    const RouterOptions& options, const RouterLossOptions& losses,
                    float loss_scale) {
  constexpr std::string_view kOp = "route_backward";
  check_choice(kOp, inputs.expert_TK, inputs.logits_TE);
  check_packed_f32(kOp, inputs.dweight_TK, inputs.expert_TK.shape);
  CADRE_CHECK_EQ(dlogits_TE.shape, inputs.logits_TE.shape);
  check_packed_rows(kOp, dlogits_TE);
  const bool has_losses = losses.balance != 0.0f || losses.z != 0.0f;
  CADRE_CHECK(!has_losses || !inputs.statistics_BS.empty(), kOp, ": losses without statistics");
  if (has_losses) {
    check_statistics(kOp, inputs.statistics_BS, inputs.target_T, inputs.logits_TE);
  }
  const RouterBackend& backend = choose(kOp, kBackends, context, dlogits_TE.dtype);
  const Trace::Span span = context.trace.book(BookedOp{
      .name = kOp,
      .flops = (kScoreFlops + (has_losses ? 8 : 4)) * inputs.logits_TE.shape.elements(),
      .bytes_read = inputs.logits_TE.bytes() + inputs.dweight_TK.bytes() +
                    inputs.expert_TK.bytes() +
                    (has_losses ? inputs.statistics_BS.bytes() + inputs.target_T.bytes() : 0),
      .bytes_written = dlogits_TE.bytes()});
  if (!context.is_meta()) {
    backend.backward(context, dlogits_TE, inputs, options, losses, loss_scale);
  }
}

void count_excess(Context& context, Tensor excess_E, ConstTensor expert_TK) {
  constexpr std::string_view kOp = "count_excess";
  check_packed_f32(kOp, excess_E, Shape{excess_E.shape[0]});
  CADRE_CHECK(expert_TK.dtype == DType::kI32 && expert_TK.packed(), kOp, ": experts must be i32");
  const RouterBackend& backend = choose(kOp, kBackends, context, DType::kF32);
  const Trace::Span span =
      context.trace.book(BookedOp{.name = kOp,
                                  .flops = expert_TK.shape.elements(),
                                  .bytes_read = expert_TK.bytes() + excess_E.bytes(),
                                  .bytes_written = excess_E.bytes()});
  if (!context.is_meta()) {
    backend.count_excess(context, excess_E, expert_TK);
  }
}

}  // namespace cadre::kernels
