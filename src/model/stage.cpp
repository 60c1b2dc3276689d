#include "model/stage.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/elementwise.h"
#include "model/block_parameters.h"
#include "model/rotary.h"

namespace cadre::model {

Stage::Stage(const ModelSpec& spec, nn::ParameterStore& store, const parallel::Mesh& mesh,
             const Options& options)
    : spec_(spec),
      options_(options),
      embedding_unit_(store),
      tokens_(embedding_unit_, token_embedding_spec(spec), *mesh.tensor),
      head_unit_(store),
      final_norm_(head_unit_, final_norm_spec(spec)),
      head_(head_unit_, head_spec(spec), *mesh.tensor) {
  if (spec.positions == PositionKind::kLearned) {
    positions_.emplace(embedding_unit_, position_embedding_spec(spec));
  }
  for (int64_t layer = 0; layer < spec.num_hidden_layers; ++layer) {
    blocks_.emplace_back(spec, layer, store, mesh, table_view_);
  }
}

void Stage::prepare(Context& context, Arena& activations) {
  if (spec_.positions != PositionKind::kRotary) {
    return;
  }
  table_PD_ = allocate(activations, DType::kF32, {options_.positions, spec_.head_dim});
  table_view_ = table_PD_;
  if (!context.is_meta()) {
    const std::vector<float> angles = rotary_table(spec_, options_.positions, options_.positions);
    std::ranges::copy(angles, table_PD_.view().flat<float>().begin());
  }
}

void Stage::inspect(std::string_view what, int64_t layer, ConstTensor tensor) const {
  if (inspector_) {
    inspector_(layer < 0 ? std::string(what) : concat(what, " of layer ", layer), tensor);
  }
}

size_t Stage::first_trained() const {
  size_t layer = 0;
  if (embedding_unit_.frozen()) {
    while (layer < blocks_.size() && blocks_[layer].frozen()) {
      ++layer;
    }
  }
  return layer;
}

OwnedTensor Stage::embed(Context& context, Arena& activations, Slot& slot) {
  const nn::ParameterUnit::Lease lease(embedding_unit_);
  const Batch& batch = slot.batch;
  OwnedTensor x = allocate(activations, options_.compute, {batch.tokens(), spec_.hidden_size});
  tokens_.forward(context, x, batch.token_T, slot.tokens).wait();
  if (positions_) {
    positions_->add_forward(context, x, batch.position_T, slot.positions);
  }
  if (batch.training && spec_.embedding_dropout > 0.0) {
    kernels::dropout(context, x, x,
                     {.probability = static_cast<float>(spec_.embedding_dropout),
                      .key = dropout_key(batch, 0, DropoutSite::kEmbedding),
                      .first_row = batch.first_row});
  }
  return x;
}

void Stage::forward(Context& context, Arena& activations, Slot& slot, const Batch& batch,
                    const nn::LossSums& sums, const nn::LossHead::Options& options) {
  CADRE_CHECK(slot.gradient_TD.empty(), "the slot's micro-batch is still in flight");
  slot.batch = batch;
  slot.blocks.resize(blocks_.size());
  OwnedTensor x = embed(context, activations, slot);
  inspect("the output of the embedding", -1, x);
  const size_t first = first_trained();
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    Block::Stash unread;  // of a block that no gradient reaches
    x = blocks_[layer].forward(context, activations, layer < first ? unread : slot.blocks[layer],
                               std::move(x), batch, options_.recompute);
    inspect("the output", static_cast<int64_t>(layer), x);
  }
  const nn::ParameterUnit::Lease lease(head_unit_);
  nn::Norm::Stash norm;
  const OwnedTensor normal = allocate(activations, options_.compute, x.view().shape);
  final_norm_.forward(context, activations, normal, x, norm);
  slot.gradient_TD = allocate(activations, options_.compute, x.view().shape);
  head_
      .forward_backward(context, activations, sums, slot.gradient_TD, normal, batch.target_T,
                        options)
      .wait();
  final_norm_.backward(context, slot.gradient_TD, slot.gradient_TD, ConstTensor(), norm);
  inspect("the gradient of the last layer's output", -1, slot.gradient_TD);
}

void Stage::backward(Context& context, Arena& activations, Slot& slot) {
  OwnedTensor gradient = std::move(slot.gradient_TD);
  const size_t first = first_trained();
  for (size_t layer = blocks_.size(); layer-- > first;) {
    Block::Stash& stash = slot.blocks[layer];
    gradient = blocks_[layer].backward_input(context, activations, stash, std::move(gradient),
                                             slot.batch, options_.recompute);
    inspect("the gradient of the input", static_cast<int64_t>(layer), gradient);
    blocks_[layer].backward_weight(context, stash);
  }
  if (embedding_unit_.frozen()) {
    slot.tokens = {};
    slot.positions = {};
    return;
  }
  if (spec_.embedding_dropout > 0.0 && slot.batch.training) {
    kernels::dropout(context, gradient, gradient,
                     {.probability = static_cast<float>(spec_.embedding_dropout),
                      .key = dropout_key(slot.batch, 0, DropoutSite::kEmbedding),
                      .first_row = slot.batch.first_row});
  }
  tokens_.backward_input(gradient, slot.tokens);
  tokens_.backward_weight(context, slot.tokens);
  if (positions_) {
    positions_->backward_input(gradient, slot.positions);
    positions_->backward_weight(context, slot.positions);
  }
}

// ---- without a backward pass

OwnedTensor Stage::body(Context& context, Arena& activations, const Batch& batch) {
  Slot slot;
  slot.batch = batch;
  slot.batch.training = false;
  OwnedTensor x = embed(context, activations, slot);
  for (Block& block : blocks_) {
    Block::Stash stash;  // freed with the block
    x = block.forward(context, activations, stash, std::move(x), slot.batch, Recompute::kNone);
  }
  return normalised(context, activations, std::move(x));
}

OwnedTensor Stage::normalised(Context& context, Arena& activations, OwnedTensor x_TD) {
  const nn::ParameterUnit::Lease lease(head_unit_);
  nn::Norm::Stash norm;
  OwnedTensor normal = allocate(activations, options_.compute, x_TD.view().shape);
  final_norm_.forward(context, activations, normal, x_TD, norm);
  return normal;
}

void Stage::evaluate(Context& context, Arena& activations, const Batch& batch,
                     const nn::LossSums& sums) {
  const OwnedTensor normal = body(context, activations, batch);
  const nn::ParameterUnit::Lease lease(head_unit_);
  head_.forward(context, activations, sums, normal, batch.target_T);
}

OwnedTensor Stage::logits(Context& context, Arena& activations, const Batch& batch) {
  const OwnedTensor normal = body(context, activations, batch);
  const nn::ParameterUnit::Lease lease(head_unit_);
  OwnedTensor result = allocate(activations, DType::kF32, {batch.tokens(), spec_.vocab_size});
  head_.logits(context, result, normal);
  return result;
}

Stage::Cache Stage::make_cache(Arena& activations, int64_t sequences, int64_t positions) const {
  Cache cache{.positions = positions};
  for (const Block& block : blocks_) {
    cache.blocks.push_back(block.make_cache(activations, options_.compute, sequences, positions));
  }
  return cache;
}

OwnedTensor Stage::next_logits(Context& context, Arena& activations, const Batch& batch,
                               Cache& cache) {
  CADRE_CHECK(cache.used + batch.sequence_length <= cache.positions, cache.used, " positions and ",
              batch.sequence_length, " more in a cache of ", cache.positions);
  Slot slot;
  slot.batch = batch;
  slot.batch.training = false;
  OwnedTensor x = embed(context, activations, slot);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    x = blocks_[layer].infer(context, activations, std::move(x), slot.batch, cache.blocks[layer],
                             cache.used);
  }
  cache.used += batch.sequence_length;
  const OwnedTensor normal = normalised(context, activations, std::move(x));
  const nn::ParameterUnit::Lease lease(head_unit_);
  OwnedTensor result = allocate(activations, DType::kF32, {batch.sequences, spec_.vocab_size});
  // The last row of every sequence, as rows that lie sequence_length apart.
  const int64_t width = spec_.hidden_size;
  ConstTensor last_BD =
      normal.view().slice({.first = {batch.sequence_length - 1, 0},
                           .size = {batch.tokens() - batch.sequence_length + 1, width}});
  last_BD.shape = {batch.sequences, width};
  last_BD.strides = {batch.sequence_length * width, 1};
  head_.logits(context, result, last_BD);
  return result;
}

}  // namespace cadre::model
