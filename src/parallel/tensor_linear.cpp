#include "parallel/tensor_linear.h"

#include "base/check.h"

namespace cadre::parallel {
namespace {

// The spec of this rank's share of a tensor, cut evenly along `dimension`. Reading the run's
// configuration has already refused a width that leaves a rest.
nn::ParameterSpec cut(nn::ParameterSpec tensor, int dimension, const comm::Collective& group) {
  if (group.size() == 1) {
    return tensor;
  }
  const int64_t width = tensor.whole[dimension];
  CADRE_CHECK(width % group.size() == 0, tensor.name, ": width ", width, " over ", group.size(),
              " ranks");
  Box box = all_of(tensor.whole);
  box.size[dimension] = width / group.size();
  box.first[dimension] = group.rank() * box.size[dimension];
  tensor.shard = box;
  return tensor;
}

nn::LinearSpec cut_columns(nn::LinearSpec spec, const comm::Collective& group) {
  for (nn::ParameterSpec& weight : spec.weights) {
    weight = cut(weight, spec.transposed ? 1 : 0, group);
  }
  for (nn::ParameterSpec& bias : spec.biases) {
    bias = cut(bias, 0, group);
  }
  return spec;
}

nn::LinearSpec cut_rows(nn::LinearSpec spec, const comm::Collective& group) {
  CADRE_CHECK(group.size() == 1 || spec.biases.empty(),
              "a bias of a row-parallel layer over several ranks comes with their transports");
  for (nn::ParameterSpec& weight : spec.weights) {
    weight = cut(weight, spec.transposed ? 0 : 1, group);
  }
  return spec;
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(nn::ParameterUnit& unit, const nn::LinearSpec& spec,
                                           comm::Collective& group)
    : group_(group), shard_(unit, cut_columns(spec, group)) {}

comm::Pending ColumnParallelLinear::backward_input(Context& context, Tensor dx_TI,
                                                   ConstTensor dy_shard, Stash& stash) const {
  shard_.backward_input(context, dx_TI, dy_shard, stash);
  return group_.all_reduce_sum(context, dx_TI);  // x fed the columns of every rank
}

RowParallelLinear::RowParallelLinear(nn::ParameterUnit& unit, const nn::LinearSpec& spec,
                                     comm::Collective& group)
    : group_(group), shard_(unit, cut_rows(spec, group)) {}

comm::Pending RowParallelLinear::forward(Context& context, Tensor y_TO, ConstTensor x_shard,
                                         Stash& stash) const {
  shard_.forward(context, y_TO, x_shard, stash);
  return group_.all_reduce_sum(context, y_TO);  // each rank summed over its own slice of I
}

comm::Pending RowParallelLinear::infer(Context& context, Tensor y_TO, ConstTensor x_shard) const {
  shard_.infer(context, y_TO, x_shard);
  return group_.all_reduce_sum(context, y_TO);
}

}  // namespace cadre::parallel
