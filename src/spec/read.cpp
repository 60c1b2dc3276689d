#include "spec/read.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "spec/check.h"
#include "spec/deepspeed.h"
#include "spec/set.h"
#include "spec/statements.h"
#include "spec/yaml.h"

namespace cadre {
namespace {

Result<std::string> read_file(const std::string& path, std::string_view what) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) {
    return input_error(what, " \"", path, "\" does not exist");
  }
  if (std::filesystem::is_directory(path, code)) {
    return input_error(what, " \"", path, "\" is a directory; give the file");
  }
  std::ifstream file(path, std::ios::binary);
  constexpr int64_t kBytesMax = int64_t{1} << 20;
  std::string block(static_cast<size_t>(kBytesMax) + 1, '\0');
  file.read(block.data(), static_cast<std::streamsize>(block.size()));
  if (!file.eof() && file.gcount() == 0) {
    return input_error(what, " \"", path, "\" cannot be read; is it yours to read?");
  }
  if (file.gcount() > kBytesMax) {
    return input_error(what, " \"", path, "\" has more than ", kBytesMax, " bytes");
  }
  block.resize(static_cast<size_t>(file.gcount()));
  return block;
}

// config.json's keys in the order of the schema, whatever the order of the file: so that two
// configurations that say the same are equal.
Json config_of(const Statements& statements) {
  Json config = Json::object();
  for (const Key& key : model_keys()) {
    const Statement* statement = statements.find(key.path);
    const std::string_view name = key.path.substr(std::string_view("model.").size());
    const size_t dot = name.find('.');
    const std::string section(name.substr(0, dot));
    if (key.slot == nullptr && dot == std::string_view::npos && statement != nullptr) {
      config[section] = statement->value;
    } else if (dot != std::string_view::npos && statement != nullptr) {
      config[section][std::string(name.substr(dot + 1))] = statement->value;
    } else if (dot != std::string_view::npos && statements.find("model." + section) != nullptr) {
      config[section] = Json();
    }
  }
  return config;
}

Draft draft_from(const Statements& statements) {
  Draft draft;
  for (const auto& [path, statement] : statements.all()) {
    const Key* key = find_key(path);
    if (key != nullptr && key->slot != nullptr) {
      set_field(*key, &draft, statement.value);
    }
  }
  draft.run.model.config = config_of(statements);
  return draft;
}

void settle_defaults(Draft& draft, const std::string& path, const ReadOptions& options,
                     const ReadContext& context) {
  namespace fs = std::filesystem;
  RunSpec& run = draft.run;
  const fs::path here = context.working_directory;
  if (run.name.empty()) {
    run.name = fs::path(path).stem().string();
  }
  if (!options.output.empty()) {
    run.output = (here / options.output).lexically_normal().string();
  }
  if (run.output.empty()) {
    run.output = (here / "runs" / run.name).lexically_normal().string();
  }
  run.data.cache_directory = (here / run.data.cache_directory).lexically_normal().string();
  const int64_t trained = draft.tokenizer.train_vocab_size;
  if (trained > 0 && run.model.from.empty() && !run.model.config.contains("vocab_size")) {
    // The order of the schema: after model_type.
    Json config = Json::object();
    for (const auto& [name, value] : run.model.config.items()) {
      config[name] = value;
      if (name == "model_type") {
        config["vocab_size"] = trained;
      }
    }
    config["vocab_size"] = trained;
    run.model.config = std::move(config);
  }
}

}  // namespace

std::string LoadedRun::place_of(std::string_view key) const {
  return nearest_place(places, key);
}

Result<LoadedRun> read_run(const std::string& path, const ReadOptions& options) {
  const Result<std::string> text = read_file(path, "the configuration");
  if (!text.ok()) {
    return text.error();
  }
  return read_run_text(*text, path, options);
}

Result<LoadedRun> read_run_text(std::string_view text, const std::string& path,
                                const ReadOptions& options) {
  namespace fs = std::filesystem;
  Result<ConfigValue> root = parse_yaml(text, path);
  if (!root.ok()) {
    return root.error();
  }
  if (root->kind != ConfigValue::Kind::kMap) {
    return input_error(root->place, ": a configuration is a map of keys; found something else");
  }
  std::error_code code;
  const fs::path here = fs::current_path(code);
  if (code) {
    return input_error("the working directory: ", code.message());
  }
  if (find_invalid_utf8(here.string()) != std::string::npos) {  // run.yaml will say where it was
    return input_error("the working directory \"", here.string(), "\" is not valid UTF-8");
  }
  ReadContext context{.config_directory = (here / path).lexically_normal().parent_path().string(),
                      .working_directory = here.string()};
  context.places[""] = path;
  LoadedRun loaded;
  apply_settings(*root, options.set, context);
  Statements statements = read_statements(*root, context, loaded.notes);
  if (!options.deepspeed.empty()) {
    const Result<std::string> json = read_file(options.deepspeed, "the DeepSpeed configuration");
    if (!json.ok()) {
      return json.error();
    }
    merge_deepspeed(*json, options.deepspeed, statements, context, loaded.notes);
  }
  statements.check_denials(context);
  Draft draft = draft_from(statements);
  settle_defaults(draft, path, options, context);
  check_combinations(draft, statements, context, loaded.notes);
  if (!context.problems.empty()) {
    return context.problems.error();
  }
  loaded.run = run_of(draft);
  loaded.places = std::move(context.places);
  return loaded;
}

}  // namespace cadre
