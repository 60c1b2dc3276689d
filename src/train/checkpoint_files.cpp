#include "train/checkpoint_files.h"

#include <filesystem>
#include <initializer_list>
#include <string>
#include <system_error>

namespace cadre::train {
namespace {

namespace fs = std::filesystem;

// tokenizer.from names a folder, or the tokenizer.json in it. Empty: it was trained.
fs::path tokenizer_folder(const std::string& from) {
  std::error_code ignored;
  return fs::is_directory(from, ignored) ? fs::path(from) : fs::path(from).parent_path();
}

}  // namespace

std::vector<CopiedFile> files_of_checkpoint(const RunSetup& setup, const RunFolder& folder) {
  std::vector<CopiedFile> files = {{"run.yaml", folder.run_yaml()}};
  const auto add_first = [&files](const char* name, std::initializer_list<fs::path> folders) {
    std::error_code ignored;
    for (const fs::path& from : folders) {
      if (!from.empty() && fs::is_regular_file(from / name, ignored)) {
        files.push_back({name, from / name});
        return;
      }
    }
  };
  // The tokenizer's files belong together: all of them come from where it came from.
  const fs::path model = setup.spec.model.from;
  const bool own = setup.spec.tokenizer.has_value();
  const fs::path tokenizer = own ? tokenizer_folder(setup.spec.tokenizer->from) : model;
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"}) {
    add_first(name, {folder.path(), tokenizer});
  }
  add_first("generation_config.json", {model});
  return files;
}

}  // namespace cadre::train
