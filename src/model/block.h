// Block: one layer of a decoder-only transformer, forward beside backward. What differs between
// families (norm, biases, q/k norm, window, positions, kind of MLP) is data in ModelSpec.
//
//     n1 = norm(x)              qkv = n1 Wqkv^T        q, k turned by their positions
//     o  = attention(q, k, v)   x2  = x + o Wo^T
//     n2 = norm(x2)             u   = n2 Wup^T         act = silu(gate) * up, or gelu(u)
//     y  = x2 + act Wdown^T
//
// Legend: T tokens, D model width, H query heads, G key/value heads, W = (H + 2G) * head width,
// U = width into the activation (2F for SwiGLU, F for GELU), F width out of it. Heads and F are
// those of this rank.

#pragma once

#include <cstdint>
#include <optional>

#include "device/context.h"
#include "kernels/attention.h"
#include "model/batch.h"
#include "model/family.h"
#include "nn/norm.h"
#include "nn/parameter.h"
#include "parallel/mesh.h"
#include "parallel/tensor_linear.h"
#include "spec/model.h"
#include "spec/training.h"
#include "tensor/tensor.h"

namespace cadre::model {

// Keys and values of all positions so far, for generation.
struct BlockCache {
  OwnedTensor key_BPGD;  // P: the most positions
  OwnedTensor value_BPGD;
};

class Block {
 public:
  // What one micro-batch leaves. A tensor is freed when the last pass that reads it has run:
  // backward_input() frees what only it needs, backward_weight() the rest.
  struct Stash {
    OwnedTensor x_TD;
    OwnedTensor n1_TD;
    OwnedTensor qkv_TW;  // turned in place, unless q and k are normalised first
    OwnedTensor qk_TW;   // q and k, normalised and turned
    OwnedTensor o_TH;
    OwnedTensor lse_BHS;
    OwnedTensor x2_TD;
    OwnedTensor n2_TD;
    OwnedTensor up_TU;  // becomes its own gradient
    OwnedTensor act_TF;
    nn::Norm::Stash attention_norm, query_norm, key_norm, mlp_norm;
    parallel::ColumnParallelLinear::Stash qkv_linear, up_linear;
    parallel::RowParallelLinear::Stash output_linear, down_linear;

    OwnedTensor dy_TD;
    OwnedTensor dmlp_TD;  // dy after dropout; empty where nothing is dropped
    OwnedTensor dx2_TD;
    OwnedTensor dattention_TD;  // dx2 after dropout
    OwnedTensor dqkv_TW;
  };

  // `table_PD` holds the rotary angles, or is empty for learned positions; read at every pass.
  Block(const ModelSpec& spec, int64_t layer, nn::ParameterStore& store, const parallel::Mesh& mesh,
        const ConstTensor& table_PD);
  Block(const Block&) = delete;

  bool frozen() const { return unit_.frozen(); }

  // Returns y. Keeps what `recompute` does not make again.
  OwnedTensor forward(Context& context, Arena& activations, Stash& stash, OwnedTensor x_TD,
                      const Batch& batch, Recompute recompute);

  // Takes dy, returns dx; first recomputes what forward() did not keep.
  OwnedTensor backward_input(Context& context, Arena& activations, Stash& stash, OwnedTensor dy_TD,
                             const Batch& batch, Recompute recompute);

  // Adds the gradients of the matrices; at any later time. Empties the stash.
  void backward_weight(Context& context, Stash& stash) const;

  // y for new tokens that follow `cached` positions; extends the cache. Every sequence of the batch
  // has the same length.
  OwnedTensor infer(Context& context, Arena& activations, OwnedTensor x_TD, const Batch& batch,
                    BlockCache& cache, int64_t cached);
  BlockCache make_cache(Arena& activations, DType dtype, int64_t sequences,
                        int64_t positions) const;

 private:
  struct Heads;

  void attend(Context& context, Arena& activations, Stash& stash, const Batch& batch);
  void rotate(Context& context, Arena& activations, Stash& stash, const Batch& batch);
  void rotate_back(Context& context, Stash& stash, const Batch& batch);
  void forward_to_activation(Context& context, Arena& activations, Stash& stash,
                             const Batch& batch);
  OwnedTensor mlp_output(Context& context, Arena& activations, Stash& stash, const Batch& batch);
  void activate(Context& context, Arena& activations, Stash& stash) const;
  void drop(Stash& stash, Recompute recompute) const;
  void drop_unread(Stash& stash) const;
  void remake(Context& context, Arena& activations, Stash& stash, const Batch& batch,
              Recompute recompute);
  void mlp_backward_input(Context& context, Arena& activations, Stash& stash, const Batch& batch);
  OwnedTensor attention_backward_input(Context& context, Arena& activations, Stash& stash,
                                       const Batch& batch);
  Heads heads_of(const Tensor& qkv_TW, const Tensor& qk_TW, const Batch& batch) const;
  kernels::AttentionOptions options_of_attention(const Batch& batch) const;
  bool drops(const Batch& batch) const { return batch.training && residual_dropout_ > 0.0f; }
  void drop_out(Context& context, Tensor y_TD, ConstTensor x_TD, const Batch& batch,
                DropoutSite site) const;

  int64_t layer_;
  int64_t query_heads_, key_heads_, head_dim_;  // of this rank
  int64_t first_head_, all_heads_;              // query heads of the layer, on all ranks
  MlpKind mlp_;
  bool rotary_;
  float residual_dropout_, attention_dropout_;
  int64_t window_;
  const ConstTensor& table_PD_;  // the stage's; outlives the block

  nn::ParameterUnit unit_;
  nn::Norm attention_norm_;
  parallel::ColumnParallelLinear qkv_linear_;
  std::optional<nn::Norm> query_norm_, key_norm_;
  parallel::RowParallelLinear output_linear_;
  nn::Norm mlp_norm_;
  parallel::ColumnParallelLinear up_linear_;
  parallel::RowParallelLinear down_linear_;
};

}  // namespace cadre::model
