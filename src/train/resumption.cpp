#include "train/resumption.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "checkpoint/reader.h"
#include "model/family.h"
#include "spec/read.h"
#include "spec/resume.h"
#include "storage/file.h"

namespace cadre::train {
namespace {

namespace fs = std::filesystem;

fs::path canonical_path(const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored);
}

}  // namespace

Result<std::optional<CheckpointInfo>> find_checkpoint(const RunFolder& folder,
                                                      const TrainOptions& options, Log& log) {
  const auto note = [&log](const std::string& text) { log.warning("checkpoint", text); };
  if (options.resume == TrainOptions::Resume::kFrom) {
    const fs::path& from = options.resume_from;
    if (is_there(from / "checkpoints")) {
      Result<std::optional<CheckpointInfo>> newest = newest_complete(from / "checkpoints", note);
      if (newest && !newest->has_value()) {
        return input_error("--resume ", from.string(), ": has no complete checkpoint");
      }
      return newest;
    }
    Result<CheckpointInfo> checkpoint = verify_checkpoint(from, Scrutiny::kChecksums);
    if (!checkpoint) {
      return checkpoint.error();
    }
    Result<std::optional<CheckpointInfo>> own = newest_complete(folder.checkpoints(), note);
    if (!own) {
      return own.error();
    }
    if (own->has_value() && (*own)->step > checkpoint->step) {
      if (folder.origin() != canonical_path(from)) {
        return input_error("--resume ", from.string(), ": run folder ", folder.path().string(),
                           " has a later checkpoint, of step ", (*own)->step,
                           ", which does not come from there; choose another --output, or "
                           "move what is later out of the folder");
      }
      return *own;  // the same command again
    }
    return std::optional<CheckpointInfo>(*checkpoint);
  }
  Result<std::optional<CheckpointInfo>> newest = newest_complete(folder.checkpoints(), note);
  if (newest && newest->has_value() && options.resume == TrainOptions::Resume::kNever) {
    return input_error("run folder ", folder.path().string(),
                       ": has checkpoints of an earlier run, ",
                       "and --resume never would mix them with the new one's; choose another "
                       "--output or remove the folder");
  }
  return newest;
}

Status check_same_run(const CheckpointInfo& checkpoint, const RunSpec& now, Log& log) {
  const fs::path saved_yaml = checkpoint.path / "run.yaml";
  Result<LoadedRun> saved = read_run(saved_yaml.string());
  if (!saved) {
    return saved.error();
  }
  const ResumeDifference difference = compare_for_resume(saved->run, now);
  if (!difference.refused.empty()) {
    std::string text = concat("the run cannot continue from ", checkpoint.path.string(),
                              " under this configuration:");
    for (const std::string& line : difference.refused) {
      text += "\n  " + line;
    }
    return input_error(text, "\nchoose another --output to start anew");
  }
  for (const std::string& line : difference.reported) {
    log.info("train", "changed since the checkpoint: " + line);
  }
  return {};
}

Status check_same_model(const CheckpointInfo& checkpoint, const ModelSpec& now) {
  Result<Json> config = read_model_config(checkpoint.path);
  if (!config) {
    return config.error();
  }
  const std::string source = (checkpoint.path / "config.json").string();
  Result<ModelSpec> saved = model::read_model_config(*config, source);
  if (!saved) {
    return saved.error();
  }
  if (*saved == now) {
    return {};
  }
  // As they are written: what a family derives from its keys is no key of anybody's.
  const Json before = model::write_model_config(*saved, "");
  const Json after = model::write_model_config(now, "");
  std::string text = concat("the run cannot continue from ", checkpoint.path.string(),
                            " with the model that model.from and its keys describe now:");
  for (const auto& [key, value] : after.items()) {
    const Json old = before.value(key, Json());
    if (old != value) {
      text += concat("\n  ", key, ": ", old.dump(), " in the saved run, ", value.dump(), " now");
    }
  }
  return input_error(text, "\nchoose another --output to start anew");
}

}  // namespace cadre::train
