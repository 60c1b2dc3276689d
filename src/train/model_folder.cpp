#include "train/model_folder.h"

#include "checkpoint/checkpoints.h"
#include "checkpoint/reader.h"
#include "model/family.h"
#include "storage/file.h"
#include "train/limits.h"
#include "train/rehearsal.h"
#include "train/weights.h"

namespace cadre::train {

namespace fs = std::filesystem;

Result<fs::path> find_model_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    return input_error(folder.string(), ": ", error ? error.message() : "no such folder");
  }
  if (is_there(folder / "config.json") || !is_there(folder / "checkpoints")) {
    return folder;
  }
  Result<std::optional<CheckpointInfo>> newest =
      newest_complete(folder / "checkpoints", [](const std::string&) {});
  if (!newest) {
    return newest.error();
  }
  if (!newest->has_value()) {
    return input_error(folder.string(), ": has no complete checkpoint");
  }
  return (*newest)->path;
}

Result<ModelSpec> read_model_spec(const fs::path& folder) {
  Result<Json> config = read_model_config(folder);
  if (!config) {
    return config.error();
  }
  return model::read_model_config(*config, (folder / "config.json").string());
}

Result<std::unique_ptr<Engine>> load_engine(const fs::path& folder, const ModelSpec& model,
                                            const ModelFolderOptions& options) {
  EngineSpec spec{.model = model,
                  .sequence_length = options.sequence_length > 0 ? options.sequence_length
                                                                 : model.max_position_embeddings,
                  .purpose = options.purpose,
                  .separate_documents = options.separate_documents};
  if (model.positions == PositionKind::kLearned &&
      spec.sequence_length > model.max_position_embeddings) {
    return input_error(folder.string(), ": sequences of ", spec.sequence_length,
                       " tokens, but the model has ", model.max_position_embeddings,
                       " learned positions");
  }
  spec.training.precision = options.precision;
  spec.training.micro_batch_size = options.batch_size;
  spec.training.dropout = 0.0;
  if (Status status = check_extent(spec); !status) {
    return status.error();
  }
  if (Status status = check_weights(spec, folder); !status) {
    return status.error();
  }
  const Target target = detect_cpu_target();
  const Rehearsal rehearsal = rehearse(spec, {.target = target,
                                              .threads = options.threads,
                                              .text = options.text,
                                              .whole_logits = options.whole_logits});
  if (Status status = check_memory(rehearsal.ledger); !status) {
    return status.error();
  }
  auto engine = std::make_unique<Engine>(spec, Device{.kind = DeviceKind::kCpu, .target = target},
                                         options.threads, rehearsal.ledger);
  if (Status status = load_weights(*engine, folder); !status) {
    return status.error();
  }
  return engine;
}

}  // namespace cadre::train
