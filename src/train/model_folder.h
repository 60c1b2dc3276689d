// A model folder, loaded to be looked at: for eval, generate and probe.

#pragma once

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "data/tokenizer/tokenizer.h"
#include "train/engine.h"
#include "train/generation.h"

namespace cadre::train {

struct ModelFolderOptions {
  Precision precision = Precision::kFp32;
  Purpose purpose = Purpose::kInference;
  int64_t batch_size = 1;
  int64_t sequence_length = 0;  // 0: the model's max_position_embeddings
  GenerationLength text = {};   // for generate
  bool whole_logits = false;    // for probe: logits of every position
  bool separate_documents = false;
  int threads = 1;
};

// The model of a Hugging Face folder or of one of our checkpoints. `folder` may be a run folder:
// then it is its newest complete checkpoint.
Result<std::filesystem::path> find_model_folder(const std::filesystem::path& folder);

Result<ModelSpec> read_model_spec(const std::filesystem::path& folder);

// An engine with the folder's weights.
Result<std::unique_ptr<Engine>> load_engine(const std::filesystem::path& folder,
                                            const ModelSpec& model,
                                            const ModelFolderOptions& options);

}  // namespace cadre::train
