// Saving a checkpoint: a Hugging Face model folder with optimizer and trainer state beside it,
// which appears under its name complete and durable, or not at all.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/saved_tensor.h"

namespace cadre {

// A file that goes into the checkpoint as it is, such as tokenizer.json.
struct CopiedFile {
  std::string name;                 // in the checkpoint
  std::filesystem::path from = {};  // read when the checkpoint is saved; empty: `text` is the file
  std::string text = {};
};

struct CheckpointContents {
  // Under Hugging Face's names, in the order of the files. A tied tensor once: lm_head.weight is
  // left out.
  std::vector<SavedTensor> model = {};
  // "master/NAME", "exp_avg/NAME", ...; empty: saved without.
  std::vector<SavedTensor> optimizer = {};
  Json config = {};
  // null: no such file. JSON has no NaN and no infinity: they would come back as null.
  Json trainer_state = {};
  std::vector<CopiedFile> files = {};
};

struct SaveOptions {
  int64_t shard_bytes_max = 5'000'000'000;  // of elements in one safetensors file
  bool read_back = true;  // compare what the files hold with what was written, by checksum
};

struct SavedCheckpoint {
  std::filesystem::path path;
  int64_t bytes = 0;
  double seconds = 0.0;
};

// "step-00000500"
std::string checkpoint_name(int64_t step);

// Writes `checkpoints`/step-NNNNNNNN. A checkpoint of that step that is there already stays until
// the new one takes its place in one instant. On a failure (a full disk) nothing is published, the
// temporary folder is removed, and the message says which complete checkpoint stays.
// Memory: one buffer of 4 MiB, and the names; tensors are converted on their way to the file.
Result<SavedCheckpoint> save_checkpoint(const std::filesystem::path& checkpoints, int64_t step,
                                        const CheckpointContents& contents,
                                        const SaveOptions& options = {});

// Writes a model alone into `folder` (config, tensors, files) as transformers' save_pretrained
// does: for exports. `folder` must not exist.
Status save_model_folder(const std::filesystem::path& folder, const CheckpointContents& contents,
                         const SaveOptions& options = {});

}  // namespace cadre
