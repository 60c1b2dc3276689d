// CheckpointReader: tensors by name, from a checkpoint of ours or from any Hugging Face folder,
// however they are cut into files and pieces there and whatever box of them is wanted here.

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/saved_tensor.h"

namespace cadre {

struct StoredPiece {
  size_t file = 0;   // index into the reader's files
  size_t entry = 0;  // index into that file's tensors
  Box box = {};
};

// A tensor with more than four dimensions can be named here, not read.
struct AvailableTensor {
  std::string name = {};
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape = {};
  std::vector<StoredPiece> pieces = {};
};

struct LoadOptions {
  // Globs of names that the folder may hold though nobody wants them, such as a tied lm_head.weight
  // or the rotary_emb.inv_freq of old files. Any other is an error: weights would be lost.
  std::vector<std::string> may_be_left_over = {};
};

class CheckpointReader {
 public:
  // The weights: by manifest.json if there is one, else model.safetensors, else
  // model.safetensors.index.json and the files it names. Headers are read and checked; elements are
  // not.
  static Result<CheckpointReader> open_model(const std::filesystem::path& folder);

  // The optimizer's tensors of one of our checkpoints; an input error if it was saved without.
  static Result<CheckpointReader> open_optimizer(const std::filesystem::path& checkpoint);

  const std::vector<AvailableTensor>& tensors() const { return tensors_; }  // by name
  const AvailableTensor* find(std::string_view name) const;  // nullptr: there is none

  // Copies every wanted tensor into its destination, converted to its dtype. Nothing is copied
  // unless all names, shapes and types fit: what is missing, left over, of another shape or of a
  // type that has no DType is named in one message.
  Status load(std::span<const WantedTensor> wanted, const LoadOptions& options = {}) const;

  // Whether load() would; destinations may be empty.
  Status check(std::span<const WantedTensor> wanted, const LoadOptions& options = {}) const;

 private:
  CheckpointReader(std::filesystem::path folder, std::vector<SafetensorsFile> files,
                   std::vector<AvailableTensor> tensors);

  std::filesystem::path folder_;
  std::vector<SafetensorsFile> files_;
  std::vector<AvailableTensor> tensors_;
};

// config.json of a model folder.
Result<Json> read_model_config(const std::filesystem::path& folder);

// trainer_state.json of a checkpoint.
Result<Json> read_trainer_state(const std::filesystem::path& checkpoint);

}  // namespace cadre
