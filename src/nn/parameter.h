// ParameterStore: every parameter of this rank, under the name and index of its Hugging Face
// tensor.
//
// Layers declare parameters and keep references; the store owns what belongs to them: the fp32
// value that the optimizer moves, the copy in the dtype that layers compute with, and the gradient.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/arena.h"
#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::nn {

enum class Initial { kNormal, kOnes, kZeros };

// What a parameter is to the optimizer: Muon moves hidden matrices, and decay is for matrices.
enum class ParameterRole { kHiddenMatrix, kEmbedding, kHead, kVector };

struct ParameterSpec {
  std::string name = {};  // of the Hugging Face tensor; keys initialisation and checkpoints
  Shape whole = {};       // of that tensor, whatever part of it is here
  std::optional<Box> shard = std::nullopt;  // the part that is here; nullopt: all of it
  Initial initial = Initial::kNormal;
  float deviation = 0.02f;  // standard deviation of normal initial values
  ParameterRole role = ParameterRole::kHiddenMatrix;
  bool transposed = false;  // a linear layer's matrix with a row for every input, not every output
  int64_t fused =
      1;  // matrices with as many outputs each that the tensor has side by side: q, k, v

  Box box() const { return shard.value_or(all_of(whole)); }
  bool operator==(const ParameterSpec&) const = default;
};

struct Parameter {
  ParameterSpec spec;
  bool frozen = false;  // has no gradient, and the optimizer skips it
  Tensor master;        // f32; empty if the parameter is frozen and computed with as `copy`
  Tensor copy;          // in the compute dtype; empty if layers compute with the master itself
  Tensor gradient;      // f32, summed over the micro-batches of a step; the optimizer clears it
  int acquired = 0;     // acquisitions in force

  // What a layer computes with. Checked here, so that no bracket is missing when ZeRO-3 needs it.
  ConstTensor value() const;

  // The same, wherever it is: for initialisation, loading and saving.
  Tensor stored() const { return master.empty() ? copy : master; }
};

// Parameters that lie under one another in memory, so that a layer uses them as one: the rows of q,
// k and v, or of gate and up. One parameter alone is a stack too.
struct ParameterStack {
  std::vector<Parameter*> members;
  Tensor whole_value;     // over all members
  Tensor whole_gradient;  // empty if all members are frozen

  ConstTensor value() const;
  bool frozen() const { return whole_gradient.empty(); }
};

// A tied matrix cannot be stacked: its storage is where it was declared first.
class ParameterStore {
 public:
  struct Options {
    DType compute = DType::kF32;  // of matrices; vectors are always computed with in f32
    std::function<bool(std::string_view name)> is_frozen = nullptr;
  };
  struct Arenas {
    Arena& parameters;  // what layers compute with
    Arena& gradients;
    Arena& optimizer;  // masters of what is computed with in another dtype
  };

  explicit ParameterStore(Options options) : options_(std::move(options)) {}

  // A name declared by two roles (tied embeddings) is one parameter. References stay valid.
  ParameterStack& declare(const std::vector<ParameterSpec>& members);

  // Gives memory to all that was declared. Gradients start at zero. The arenas outlive the store.
  void allocate(Context& context, const Arenas& arenas);

  // Element i of the whole tensor depends on (seed, name, i) only, never on the layout. On meta
  // there is nothing to do.
  void initialize(Context& context, uint64_t seed);

  // Brings the copies in line with the masters, after initialisation or loading.
  void refresh_copies(Context& context);

  std::deque<Parameter>& parameters() { return parameters_; }
  const std::deque<Parameter>& parameters() const { return parameters_; }
  int64_t elements() const;  // of the whole tensors, each counted once

 private:
  Parameter* find(std::string_view name);
  void allocate_stack(ParameterStack& stack, const Arenas& arenas);
  Tensor take(Arena& arena, DType dtype, const Shape& shape);

  Options options_;
  std::deque<Parameter> parameters_;
  std::deque<ParameterStack> stacks_;
  std::vector<OwnedTensor> memory_;
};

// A block, the embedding or the head: what a stage brackets with acquire() and release() around
// forward and around backward_input. (Where ZeRO-3 will gather and drop; until then only counted.)
class ParameterUnit {
 public:
  explicit ParameterUnit(ParameterStore& store) : store_(store) {}

  ParameterStack& declare(const std::vector<ParameterSpec>& members);
  void acquire();
  void release();

  bool frozen() const;  // all of it: nothing in it needs a backward pass

  // Holds a unit while a pass of a layer runs.
  class Lease {
   public:
    explicit Lease(ParameterUnit& unit) : unit_(unit) { unit_.acquire(); }
    ~Lease() { unit_.release(); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    ParameterUnit& unit_;
  };

 private:
  ParameterStore& store_;  // outlives the unit
  std::vector<Parameter*> members_;
};

}  // namespace cadre::nn
