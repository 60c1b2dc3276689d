// Stage: the part of a model that one rank runs, from token ids to the loss. (A rank of a pipeline
// will hold some of the blocks; one process holds them all.)
//
// Legend: T tokens of a micro-batch, D model width, V vocabulary.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/context.h"
#include "model/batch.h"
#include "model/block.h"
#include "nn/embedding.h"
#include "nn/loss_head.h"
#include "nn/norm.h"
#include "parallel/mesh.h"
#include "parallel/vocabulary.h"
#include "spec/model.h"
#include "spec/training.h"

namespace cadre::model {

class Stage {
 public:
  // What one micro-batch in flight holds on to.
  struct Slot {
    Batch batch;
    parallel::VocabularyEmbedding::Stash tokens;
    nn::Embedding::Stash positions;
    std::vector<Block::Stash> blocks;
    OwnedTensor gradient_TD;  // of the output of the block that is next in the backward pass
  };

  // Keys and values of all blocks.
  struct Cache {
    std::vector<BlockCache> blocks = {};
    int64_t positions = 0;  // the most there is room for
    int64_t used = 0;
  };

  struct Options {
    DType compute = DType::kF32;  // of activations
    Recompute recompute = Recompute::kNone;
    int64_t positions = 0;  // the most positions of a sequence
  };

  // Declares every parameter in `store`. All references outlive the stage.
  Stage(const ModelSpec& spec, nn::ParameterStore& store, const parallel::Mesh& mesh,
        const Options& options);
  Stage(const Stage&) = delete;

  // Gives memory to what is constant in every step, and fills it. Call once, before any pass.
  void prepare(Context& context, Arena& activations);

  // The forward pass of a micro-batch, with its loss and the gradient at the last block's output.
  // Adds to `sums`. The memory of `batch` must live until the backward pass has ended.
  void forward(Context& context, Arena& activations, Slot& slot, const Batch& batch,
               const nn::LossSums& sums, const nn::LossHead::Options& options);

  // Both halves of the backward pass, block by block, so that a block's memory is free before the
  // next one needs any. Adds to the gradients of all parameters and empties the slot.
  void backward(Context& context, Arena& activations, Slot& slot);

  // The loss alone.
  void evaluate(Context& context, Arena& activations, const Batch& batch, const nn::LossSums& sums);

  // f32 logits [tokens of the batch, V].
  OwnedTensor logits(Context& context, Arena& activations, const Batch& batch);

  // Generation: logits [B, V] of the last position of every sequence, after adding the batch's
  // tokens to the cache.
  OwnedTensor next_logits(Context& context, Arena& activations, const Batch& batch, Cache& cache);
  Cache make_cache(Arena& activations, int64_t sequences, int64_t positions) const;

  // Called with every tensor that passes from one part to the next, forward and backward, in the
  // order in which they are made: for who looks for a value that is not finite. nullptr: nobody.
  using Inspector = std::function<void(const std::string& name, ConstTensor tensor)>;
  void inspect_with(Inspector inspector) { inspector_ = std::move(inspector); }

  const ModelSpec& spec() const { return spec_; }

 private:
  // The lowest block that a gradient has to reach: those below are frozen, with the embedding.
  size_t first_trained() const;
  OwnedTensor embed(Context& context, Arena& activations, Slot& slot);
  OwnedTensor body(Context& context, Arena& activations, const Batch& batch);
  OwnedTensor normalised(Context& context, Arena& activations, OwnedTensor x_TD);
  void inspect(std::string_view what, int64_t layer, ConstTensor tensor) const;

  ModelSpec spec_;
  Options options_;
  OwnedTensor table_PD_;  // rotary angles
  ConstTensor table_view_;
  Inspector inspector_;

  nn::ParameterUnit embedding_unit_;
  parallel::VocabularyEmbedding tokens_;
  std::optional<nn::Embedding> positions_;
  std::deque<Block> blocks_;
  nn::ParameterUnit head_unit_;
  nn::Norm final_norm_;
  parallel::VocabularyLossHead head_;
};

}  // namespace cadre::model
