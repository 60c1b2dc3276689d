#include "model/block.h"

#include <cmath>

#include "base/check.h"
#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/rope.h"
#include "model/block_parameters.h"

namespace cadre::model {

// q, k and v of fused rows, [B, S, heads, head width].
struct Block::Heads {
  Tensor q, k, v;
};

Block::Block(const ModelSpec& spec, int64_t layer, nn::ParameterStore& store,
             const parallel::Mesh& mesh, const ConstTensor& table_PD)
    : layer_(layer),
      query_heads_(spec.num_attention_heads / mesh.tensor->size()),
      key_heads_(spec.num_key_value_heads / mesh.tensor->size()),
      head_dim_(spec.head_dim),
      first_head_(mesh.tensor->rank() * query_heads_),
      all_heads_(spec.num_attention_heads),
      mlp_(spec.mlp),
      rotary_(spec.positions == PositionKind::kRotary),
      residual_dropout_(static_cast<float>(spec.residual_dropout)),
      attention_dropout_(static_cast<float>(spec.attention_dropout)),
      window_(spec.window_of(layer)),
      table_PD_(table_PD),
      unit_(store),
      attention_norm_(unit_, attention_norm_spec(spec, layer)),
      qkv_linear_(unit_, qkv_spec(spec, layer), *mesh.tensor),
      output_linear_(unit_, attention_output_spec(spec, layer), *mesh.tensor),
      mlp_norm_(unit_, mlp_norm_spec(spec, layer)),
      up_linear_(unit_, up_spec(spec, layer), *mesh.tensor),
      down_linear_(unit_, down_spec(spec, layer), *mesh.tensor) {
  if (spec.qk_norm) {
    query_norm_.emplace(unit_, query_norm_spec(spec, layer));
    key_norm_.emplace(unit_, key_norm_spec(spec, layer));
  }
}

// Where q and k were normalised they lie in rows of their own, else beside v.
Block::Heads Block::heads_of(const Tensor& qkv_TW, const Tensor& qk_TW, const Batch& batch) const {
  const int64_t query = query_heads_ * head_dim_;
  const int64_t key = key_heads_ * head_dim_;
  const Tensor qk = qk_TW.empty() ? qkv_TW : qk_TW;
  const auto cut = [&](const Tensor& rows, int64_t first, int64_t heads) {
    return rows.columns(first, heads * head_dim_).split(1, heads).split(0, batch.sequences);
  };
  return {.q = cut(qk, 0, query_heads_),
          .k = cut(qk, query, key_heads_),
          .v = cut(qkv_TW, query + key, key_heads_)};
}

void Block::drop_out(Context& context, Tensor y_TD, ConstTensor x_TD, const Batch& batch,
                     DropoutSite site) const {
  kernels::dropout(context, y_TD, x_TD,
                   {.probability = residual_dropout_,
                    .key = dropout_key(batch, layer_, site),
                    .first_row = batch.first_row});
}

kernels::AttentionOptions Block::options_of_attention(const Batch& batch) const {
  kernels::AttentionOptions options{.scale = 1.0f / std::sqrt(static_cast<float>(head_dim_)),
                                    .window = window_};
  if (batch.training && attention_dropout_ > 0.0f) {
    options.dropout = {.probability = attention_dropout_,
                       .key = dropout_key(batch, layer_, DropoutSite::kProbabilities),
                       .first_row = batch.first_row,
                       .heads = all_heads_,
                       .first_head = first_head_};
  }
  return options;
}

// ---- forward

OwnedTensor Block::forward(Context& context, Arena& activations, Stash& stash, OwnedTensor x_TD,
                           const Batch& batch, Recompute recompute) {
  const nn::ParameterUnit::Lease lease(unit_);
  stash.x_TD = std::move(x_TD);
  forward_to_activation(context, activations, stash, batch);
  OwnedTensor y = mlp_output(context, activations, stash, batch);
  drop(stash, recompute);
  return y;
}

// All but the last product, of which the backward pass needs the input alone.
void Block::forward_to_activation(Context& context, Arena& activations, Stash& stash,
                                  const Batch& batch) {
  const Tensor x = stash.x_TD;
  stash.n1_TD = allocate(activations, x.dtype, x.shape);
  attention_norm_.forward(context, activations, stash.n1_TD, x, stash.attention_norm);
  stash.qkv_TW = allocate(activations, x.dtype, {batch.tokens(), qkv_linear_.output_width()});
  qkv_linear_.forward(context, stash.qkv_TW, stash.n1_TD, stash.qkv_linear);
  rotate(context, activations, stash, batch);
  attend(context, activations, stash, batch);

  stash.x2_TD = allocate(activations, x.dtype, x.shape);  // the branch, then the sum with it
  output_linear_.forward(context, stash.x2_TD, stash.o_TH, stash.output_linear).wait();
  if (drops(batch)) {
    drop_out(context, stash.x2_TD, stash.x2_TD, batch, DropoutSite::kAttention);
  }
  stash.n2_TD = allocate(activations, x.dtype, x.shape);
  mlp_norm_.add_forward(context, activations, stash.x2_TD, stash.n2_TD, x, stash.x2_TD,
                        stash.mlp_norm);
  stash.up_TU = allocate(activations, x.dtype, {batch.tokens(), up_linear_.output_width()});
  up_linear_.forward(context, stash.up_TU, stash.n2_TD, stash.up_linear);
  activate(context, activations, stash);
}

void Block::rotate(Context& context, Arena& activations, Stash& stash, const Batch& batch) {
  const int64_t heads = query_heads_ + key_heads_;
  const Tensor raw_THD = stash.qkv_TW.view().columns(0, heads * head_dim_).split(1, heads);
  Tensor qk_THD = raw_THD;
  if (query_norm_) {
    stash.qk_TW = allocate(activations, raw_THD.dtype, {batch.tokens(), heads * head_dim_});
    qk_THD = stash.qk_TW.view().split(1, heads);
    const auto part = [&](const Tensor& all, int64_t first, int64_t count) {
      return all.slice({.first = {0, first, 0}, .size = {batch.tokens(), count, head_dim_}});
    };
    query_norm_->forward(context, activations, part(qk_THD, 0, query_heads_),
                         part(raw_THD, 0, query_heads_), stash.query_norm);
    key_norm_->forward(context, activations, part(qk_THD, query_heads_, key_heads_),
                       part(raw_THD, query_heads_, key_heads_), stash.key_norm);
  }
  if (rotary_) {
    kernels::rope_apply(context, qk_THD, table_PD_, batch.position_T, kernels::Rotation::kForward);
  }
}

void Block::attend(Context& context, Arena& activations, Stash& stash, const Batch& batch) {
  const Heads heads = heads_of(stash.qkv_TW, stash.qk_TW, batch);
  stash.o_TH = allocate(activations, heads.q.dtype, {batch.tokens(), query_heads_ * head_dim_});
  stash.lse_BHS =
      allocate(activations, DType::kF32, {batch.sequences, query_heads_, batch.sequence_length});
  const Tensor o_BSHD = stash.o_TH.view().split(1, query_heads_).split(0, batch.sequences);
  kernels::attention_forward(context, o_BSHD, stash.lse_BHS, heads.q, heads.k, heads.v,
                             batch.start_BS, options_of_attention(batch));
}

OwnedTensor Block::mlp_output(Context& context, Arena& activations, Stash& stash,
                              const Batch& batch) {
  const Tensor x2 = stash.x2_TD;
  OwnedTensor y = allocate(activations, x2.dtype, x2.shape);
  down_linear_.forward(context, y, stash.act_TF, stash.down_linear).wait();
  if (drops(batch)) {
    drop_out(context, y, y, batch, DropoutSite::kMlp);
  }
  kernels::add(context, y, y, x2);
  return y;
}

void Block::activate(Context& context, Arena& activations, Stash& stash) const {
  const Tensor up = stash.up_TU;
  if (mlp_ == MlpKind::kSwiGlu) {
    stash.act_TF = allocate(activations, up.dtype, {up.shape[0], up.shape[1] / 2});
    kernels::swiglu_forward(context, stash.act_TF, up);
  } else {
    stash.act_TF = allocate(activations, up.dtype, up.shape);
    kernels::gelu_forward(context, stash.act_TF, up);
  }
}

// ---- recomputation

void Block::drop(Stash& stash, Recompute recompute) const {
  if (recompute == Recompute::kFull) {
    OwnedTensor x = std::move(stash.x_TD);
    stash = {};
    stash.x_TD = std::move(x);
  } else if (recompute == Recompute::kSelective) {
    stash.n1_TD.reset();
    stash.o_TH.reset();
    stash.lse_BHS.reset();
    stash.n2_TD.reset();
    stash.act_TF.reset();
    stash.attention_norm = {};
    stash.mlp_norm = {};
    if (query_norm_) {
      stash.qk_TW.reset();
      stash.query_norm = {};
      stash.key_norm = {};
    }
  }
  drop_unread(stash);
}

// What only the gradient of a frozen weight would read.
void Block::drop_unread(Stash& stash) const {
  if (!qkv_linear_.reads_input_again()) {
    stash.n1_TD.reset();
  }
  if (!up_linear_.reads_input_again()) {
    stash.n2_TD.reset();
  }
  if (!down_linear_.reads_input_again()) {
    stash.act_TF.reset();
  }
}

// Runs the same kernels on the same inputs, so that the bits are those of the first time.
void Block::remake(Context& context, Arena& activations, Stash& stash, const Batch& batch,
                   Recompute recompute) {
  if (recompute == Recompute::kFull) {
    forward_to_activation(context, activations, stash, batch);
    nn::Linear::move_input(stash.down_linear, stash.act_TF);
  } else if (recompute == Recompute::kSelective) {
    const Tensor x = stash.x_TD;
    stash.n1_TD = allocate(activations, x.dtype, x.shape);
    attention_norm_.forward(context, activations, stash.n1_TD, x, stash.attention_norm);
    nn::Linear::move_input(stash.qkv_linear, stash.n1_TD);
    if (query_norm_) {  // else q and k were turned in place
      rotate(context, activations, stash, batch);
    }
    attend(context, activations, stash, batch);
    nn::Linear::move_input(stash.output_linear, stash.o_TH);
    stash.n2_TD = allocate(activations, x.dtype, x.shape);
    mlp_norm_.forward(context, activations, stash.n2_TD, stash.x2_TD, stash.mlp_norm);
    nn::Linear::move_input(stash.up_linear, stash.n2_TD);
    activate(context, activations, stash);
    nn::Linear::move_input(stash.down_linear, stash.act_TF);
  }
  drop_unread(stash);
}

// ---- backward

OwnedTensor Block::backward_input(Context& context, Arena& activations, Stash& stash,
                                  OwnedTensor dy_TD, const Batch& batch, Recompute recompute) {
  const nn::ParameterUnit::Lease lease(unit_);
  remake(context, activations, stash, batch, recompute);
  stash.dy_TD = std::move(dy_TD);
  mlp_backward_input(context, activations, stash, batch);
  return attention_backward_input(context, activations, stash, batch);
}

// dy to dx2. The gradient of up takes up's place, that of n2 becomes dx2.
void Block::mlp_backward_input(Context& context, Arena& activations, Stash& stash,
                               const Batch& batch) {
  const Tensor dy = stash.dy_TD;
  Tensor dbranch = dy;
  if (drops(batch)) {
    stash.dmlp_TD = allocate(activations, dy.dtype, dy.shape);
    dbranch = stash.dmlp_TD;
    drop_out(context, dbranch, dy, batch, DropoutSite::kMlp);
  }
  {
    const Shape up = stash.up_TU.view().shape;
    const OwnedTensor dact_TF =
        allocate(activations, dy.dtype, {up[0], mlp_ == MlpKind::kSwiGlu ? up[1] / 2 : up[1]});
    down_linear_.backward_input(context, dact_TF, dbranch, stash.down_linear);
    if (mlp_ == MlpKind::kSwiGlu) {
      kernels::swiglu_backward(context, stash.up_TU, dact_TF, stash.up_TU);
    } else {
      kernels::gelu_backward(context, stash.up_TU, dact_TF, stash.up_TU);
    }
  }
  stash.dx2_TD = allocate(activations, dy.dtype, dy.shape);
  up_linear_.backward_input(context, stash.dx2_TD, stash.up_TU, stash.up_linear).wait();
  mlp_norm_.backward(context, stash.dx2_TD, stash.dx2_TD, dy, stash.mlp_norm);
  stash.x2_TD.reset();
}

// dx2 to dx. The gradient of n1 becomes dx.
OwnedTensor Block::attention_backward_input(Context& context, Arena& activations, Stash& stash,
                                            const Batch& batch) {
  const Tensor dx2 = stash.dx2_TD;
  Tensor dbranch = dx2;
  if (drops(batch)) {
    stash.dattention_TD = allocate(activations, dx2.dtype, dx2.shape);
    dbranch = stash.dattention_TD;
    drop_out(context, dbranch, dx2, batch, DropoutSite::kAttention);
  }
  stash.dqkv_TW = allocate(activations, dx2.dtype, stash.qkv_TW.view().shape);
  {
    const OwnedTensor do_TH =
        allocate(activations, dx2.dtype, {batch.tokens(), query_heads_ * head_dim_});
    output_linear_.backward_input(context, do_TH, dbranch, stash.output_linear);
    const auto as_heads = [&](const Tensor& rows) {
      return rows.split(1, query_heads_).split(0, batch.sequences);
    };
    const Heads heads = heads_of(stash.qkv_TW, stash.qk_TW, batch);
    const Heads dheads = heads_of(stash.dqkv_TW, Tensor(), batch);
    kernels::attention_backward(context, dheads.q, dheads.k, dheads.v, as_heads(do_TH),
                                as_heads(stash.o_TH), stash.lse_BHS, heads.q, heads.k, heads.v,
                                batch.start_BS, options_of_attention(batch));
  }
  stash.lse_BHS.reset();
  rotate_back(context, stash, batch);
  stash.qkv_TW.reset();
  stash.qk_TW.reset();
  OwnedTensor dx = allocate(activations, dx2.dtype, dx2.shape);
  qkv_linear_.backward_input(context, dx, stash.dqkv_TW, stash.qkv_linear).wait();
  attention_norm_.backward(context, dx, dx, dx2, stash.attention_norm);
  stash.x_TD.reset();
  return dx;
}

void Block::rotate_back(Context& context, Stash& stash, const Batch& batch) {
  const int64_t heads = query_heads_ + key_heads_;
  const Tensor dqk_THD = stash.dqkv_TW.view().columns(0, heads * head_dim_).split(1, heads);
  if (rotary_) {
    kernels::rope_apply(context, dqk_THD, table_PD_, batch.position_T,
                        kernels::Rotation::kBackward);
  }
  if (query_norm_) {
    const auto part = [&](int64_t first, int64_t count) {
      return dqk_THD.slice({.first = {0, first, 0}, .size = {batch.tokens(), count, head_dim_}});
    };
    const Tensor dq = part(0, query_heads_);
    const Tensor dk = part(query_heads_, key_heads_);
    query_norm_->backward(context, dq, dq, ConstTensor(), stash.query_norm);
    key_norm_->backward(context, dk, dk, ConstTensor(), stash.key_norm);
  }
}

void Block::backward_weight(Context& context, Stash& stash) const {
  down_linear_.backward_weight(context, stash.down_linear);
  up_linear_.backward_weight(context, stash.up_linear);
  output_linear_.backward_weight(context, stash.output_linear);
  qkv_linear_.backward_weight(context, stash.qkv_linear);
  stash = {};
}

// ---- generation

BlockCache Block::make_cache(Arena& activations, DType dtype, int64_t sequences,
                             int64_t positions) const {
  const Shape shape = {sequences, positions, key_heads_, head_dim_};
  return {.key_BPGD = allocate(activations, dtype, shape),
          .value_BPGD = allocate(activations, dtype, shape)};
}

OwnedTensor Block::infer(Context& context, Arena& activations, OwnedTensor x_TD, const Batch& batch,
                         BlockCache& cache, int64_t cached) {
  const nn::ParameterUnit::Lease lease(unit_);
  Stash stash;
  stash.x_TD = std::move(x_TD);
  const Tensor x = stash.x_TD;
  stash.n1_TD = allocate(activations, x.dtype, x.shape);
  attention_norm_.forward(context, activations, stash.n1_TD, x, stash.attention_norm);
  stash.qkv_TW = allocate(activations, x.dtype, {batch.tokens(), qkv_linear_.output_width()});
  qkv_linear_.infer(context, stash.qkv_TW, stash.n1_TD);
  rotate(context, activations, stash, batch);

  const Heads heads = heads_of(stash.qkv_TW, stash.qk_TW, batch);
  const auto cached_range = [&](const OwnedTensor& all, int64_t first, int64_t count) {
    return all.view().slice(
        {.first = {0, first, 0, 0}, .size = {batch.sequences, count, key_heads_, head_dim_}});
  };
  kernels::convert(context, cached_range(cache.key_BPGD, cached, batch.sequence_length), heads.k);
  kernels::convert(context, cached_range(cache.value_BPGD, cached, batch.sequence_length), heads.v);
  stash.o_TH = allocate(activations, x.dtype, {batch.tokens(), query_heads_ * head_dim_});
  stash.lse_BHS =
      allocate(activations, DType::kF32, {batch.sequences, query_heads_, batch.sequence_length});
  const int64_t keys = cached + batch.sequence_length;
  kernels::attention_forward(
      context, stash.o_TH.view().split(1, query_heads_).split(0, batch.sequences), stash.lse_BHS,
      heads.q, cached_range(cache.key_BPGD, 0, keys), cached_range(cache.value_BPGD, 0, keys),
      ConstTensor(), options_of_attention(batch));

  stash.x2_TD = allocate(activations, x.dtype, x.shape);
  output_linear_.infer(context, stash.x2_TD, stash.o_TH).wait();
  stash.n2_TD = allocate(activations, x.dtype, x.shape);
  mlp_norm_.add_forward(context, activations, stash.x2_TD, stash.n2_TD, x, stash.x2_TD,
                        stash.mlp_norm);
  stash.up_TU = allocate(activations, x.dtype, {batch.tokens(), up_linear_.output_width()});
  up_linear_.infer(context, stash.up_TU, stash.n2_TD);
  activate(context, activations, stash);
  return mlp_output(context, activations, stash, batch);
}

}  // namespace cadre::model
