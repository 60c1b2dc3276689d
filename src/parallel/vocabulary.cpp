#include "parallel/vocabulary.h"

#include "base/check.h"

namespace cadre::parallel {
namespace {

// Rows [r * V / N, (r + 1) * V / N): uneven where N does not divide V.
nn::ParameterSpec cut_rows(nn::ParameterSpec table, const comm::Collective& group) {
  if (group.size() == 1) {
    return table;
  }
  const int64_t rows = table.whole[0];
  const int64_t first = rows * group.rank() / group.size();
  const int64_t last = rows * (group.rank() + 1) / group.size();
  CADRE_CHECK(last > first, table.name, ": ", rows, " rows over ", group.size(), " ranks");
  Box box = all_of(table.whole);
  box.first[0] = first;
  box.size[0] = last - first;
  table.shard = box;
  return table;
}

}  // namespace

VocabularyEmbedding::VocabularyEmbedding(nn::ParameterUnit& unit, const nn::ParameterSpec& table,
                                         comm::Collective& group)
    : group_(group), shard_(unit, cut_rows(table, group)) {}

comm::Pending VocabularyEmbedding::forward(Context& context, Tensor x_TD, ConstTensor id_T,
                                           Stash& stash) const {
  shard_.forward(context, x_TD, id_T, stash);
  return group_.all_reduce_sum(context, x_TD);
}

comm::Pending VocabularyEmbedding::infer(Context& context, Tensor x_TD, ConstTensor id_T) const {
  shard_.infer(context, x_TD, id_T);
  return group_.all_reduce_sum(context, x_TD);
}

VocabularyLossHead::VocabularyLossHead(nn::ParameterUnit& unit, const nn::ParameterSpec& weight,
                                       comm::Collective& group)
    : group_(group), shard_(unit, cut_rows(weight, group)) {}

// (A sum over ranks is of exp(logits - max) with the rank's own max: rescaling it to the whole
// row's comes with the transports. One rank has nothing to agree on.)
nn::LossHead::Agree VocabularyLossHead::agreement() const {
  CADRE_CHECK(group_.size() == 1, "the loss over ", group_.size(), " parts of a vocabulary");
  return [](Context&, Tensor, Tensor, Tensor) {};
}

void VocabularyLossHead::forward(Context& context, Arena& activations, const nn::LossSums& sums,
                                 ConstTensor x_TD, ConstTensor target_T) const {
  shard_.forward(context, activations, sums, x_TD, target_T, agreement());
}

comm::Pending VocabularyLossHead::forward_backward(Context& context, Arena& activations,
                                                   const nn::LossSums& sums, Tensor dx_TD,
                                                   ConstTensor x_TD, ConstTensor target_T,
                                                   const nn::LossHead::Options& options) const {
  shard_.forward_backward(context, activations, sums, dx_TD, x_TD, target_T, options, agreement());
  return group_.all_reduce_sum(context, dx_TD);
}

}  // namespace cadre::parallel
