#include "checkpoint/checkpoints.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/save.h"
#include "checkpoint/shown.h"
#include "storage/page_buffer.h"
#include "storage/publish.h"
#include "storage/safe_writer.h"

namespace cadre {
namespace {

constexpr std::string_view kUnfinished =
    "is unfinished: the process that saves it still does, or was killed";

// The step that a folder's name says: "step-00000500". nullopt: it is none of ours.
std::optional<int64_t> step_named(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0 ||
      checkpoint_name(step) != name) {
    return std::nullopt;
  }
  return step;
}

std::optional<int64_t> temporary_step(std::string_view name) {
  if (!name.starts_with(kTemporaryPrefix)) {
    return std::nullopt;
  }
  return step_named(name.substr(kTemporaryPrefix.size()));
}

// What differs between a file on disk and its line in the manifest; empty: nothing.
std::string file_problem(const std::filesystem::path& checkpoint, const ManifestFile& file,
                         Scrutiny scrutiny, std::span<std::byte> buffer) {
  const std::filesystem::path path = checkpoint / file.name;
  const Result<ReadableFile> opened = ReadableFile::open(path);
  if (!opened) {
    return opened.error().message;
  }
  if (opened->bytes() != file.bytes) {
    return concat(shown(file.name), " has ", opened->bytes(), " bytes, ", kManifestName, " says ",
                  file.bytes);
  }
  if (scrutiny == Scrutiny::kSizes) {
    return "";
  }
  const Result<FileSummary> summary = summarize_file(path, buffer);
  if (!summary) {
    return summary.error().message;
  }
  return summary->checksum == file.checksum
             ? ""
             : concat(shown(file.name), " is corrupt: its checksum is ",
                      checksum_text(summary->checksum), ", ", kManifestName, " says ",
                      checksum_text(file.checksum));
}

std::string problem_of(const std::filesystem::path& checkpoint, const Manifest& manifest,
                       Scrutiny scrutiny) {
  const std::optional<int64_t> step = step_named(checkpoint.filename().string());
  if (step && *step != manifest.step) {
    return concat("its ", kManifestName, " is of step ", manifest.step);
  }
  const PageBuffer buffer(scrutiny == Scrutiny::kSizes ? 0 : kWriteBufferBytes);
  for (const ManifestFile& file : manifest.files) {
    if (std::string problem = file_problem(checkpoint, file, scrutiny, buffer.bytes());
        !problem.empty()) {
      return problem;
    }
  }
  return "";
}

CheckpointInfo inspect(const std::filesystem::path& checkpoint, int64_t step, Scrutiny scrutiny) {
  CheckpointInfo info{.path = checkpoint, .step = step};
  const Result<Manifest> manifest = read_manifest(checkpoint);
  info.problem = manifest ? problem_of(checkpoint, *manifest, scrutiny) : manifest.error().message;
  if (info.complete()) {
    info.step = manifest->step;
    info.bytes = manifest->bytes();
  }
  return info;
}

Result<std::vector<CheckpointInfo>> newest_first(const std::filesystem::path& checkpoints) {
  Result<std::vector<CheckpointInfo>> all = list_checkpoints(checkpoints, Scrutiny::kSizes);
  if (all) {
    std::ranges::reverse(*all);
  }
  return all;
}

std::string note_of(const CheckpointInfo& info) {
  return concat("passed over \"", info.path.string(), "\": ", info.problem);
}

// `.tmp-removed-step-N` can always go. `.tmp-replaced-step-N` is the only copy of its step if a
// process was killed between two renames.
bool is_refuse(const std::filesystem::path& checkpoints, std::string_view name,
               int64_t current_step) {
  const std::string prefix(kTemporaryPrefix);
  if (const std::optional<int64_t> step = temporary_step(name)) {
    return *step < current_step;
  }
  if (name.starts_with(prefix + "removed-")) {
    return true;
  }
  const std::string replaced = prefix + "replaced-";
  std::error_code ignored;
  return name.starts_with(replaced) &&
         std::filesystem::exists(checkpoints / name.substr(replaced.size()), ignored);
}

Status remove_refuse(const std::filesystem::path& checkpoints, int64_t current_step) {
  const Result<std::vector<std::string>> names = list_folder(checkpoints);
  if (!names) {
    return names.error();
  }
  for (const std::string& name : *names) {
    if (is_refuse(checkpoints, name, current_step)) {
      std::error_code error;
      std::filesystem::remove_all(checkpoints / name, error);
      if (error) {
        return failure(file_error("remove", checkpoints / name, error.value()).message);
      }
    }
  }
  return {};
}

}  // namespace

Result<std::vector<CheckpointInfo>> list_checkpoints(const std::filesystem::path& checkpoints,
                                                     Scrutiny scrutiny) {
  const Result<std::vector<std::string>> names = list_folder(checkpoints);
  if (!names) {
    return names.error();
  }
  std::vector<CheckpointInfo> found;
  for (const std::string& name : *names) {
    const std::filesystem::path path = checkpoints / name;
    if (const std::optional<int64_t> step = step_named(name)) {
      found.push_back(inspect(path, *step, scrutiny));
    } else if (const std::optional<int64_t> unfinished = temporary_step(name)) {
      found.push_back({.path = path, .step = *unfinished, .problem = std::string(kUnfinished)});
    }
  }
  std::ranges::stable_sort(found, {}, &CheckpointInfo::step);
  return found;
}

Result<std::optional<CheckpointInfo>> newest_complete(const std::filesystem::path& checkpoints,
                                                      const NoteCallback& note, Scrutiny scrutiny) {
  const Result<std::vector<CheckpointInfo>> all = newest_first(checkpoints);
  if (!all) {
    return all.error();
  }
  for (const CheckpointInfo& candidate : *all) {
    const CheckpointInfo info = candidate.complete() && scrutiny != Scrutiny::kSizes
                                    ? inspect(candidate.path, candidate.step, scrutiny)
                                    : candidate;
    if (info.complete()) {
      return std::optional(info);
    }
    note(note_of(info));
  }
  return std::optional<CheckpointInfo>();
}

Result<CheckpointInfo> verify_checkpoint(const std::filesystem::path& checkpoint,
                                         Scrutiny scrutiny) {
  std::filesystem::path path = checkpoint;
  if (path.filename().empty()) {  // "step-00000500/"
    path = path.parent_path();
  }
  CheckpointInfo info = inspect(path, 0, scrutiny);
  if (!info.complete()) {
    return input_error("the checkpoint \"", path.string(), "\" is not whole: ", info.problem);
  }
  return info;
}

Status purge_checkpoints(const std::filesystem::path& checkpoints, int64_t keep,
                         int64_t current_step, const NoteCallback& note) {
  CADRE_CHECK(keep >= 0, keep);
  if (Status status = remove_refuse(checkpoints, current_step); !status) {
    return status;
  }
  const Result<std::vector<CheckpointInfo>> all = newest_first(checkpoints);
  if (!all) {
    return all.error();
  }
  int64_t kept = 0;
  for (const CheckpointInfo& info : *all) {
    if (!info.complete() && info.step != current_step) {
      note(concat("left \"", info.path.string(), "\" alone: ", info.problem));
      continue;
    }
    if (!info.complete() || info.step > current_step) {
      continue;
    }
    if (++kept > keep && keep > 0 && info.step != current_step) {
      if (Status status = remove_folder(info.path); !status) {
        return status;
      }
    }
  }
  return {};
}

}  // namespace cadre
