// Tokenizer from files and back.

#include <algorithm>
#include <filesystem>

#include "base/random.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_parts.h"
#include "storage/file.h"
#include "storage/safe_writer.h"

namespace cadre::data {
namespace {

// Null if the file does not exist.
Result<Json> read_optional_json(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Json(nullptr);
  }
  Result<std::string> text = read_file(path);
  if (!text) {
    return text.error();
  }
  return parse_json(*text, path.string());
}

// config.json of a model may have an id, a list of ids or null; what the vocabulary does not have
// is passed over, for many a small model's file keeps the ids of a large one.
std::vector<int32_t> ids_in(const Json& config, const char* name, int64_t vocab_size) {
  std::vector<int32_t> ids;
  if (!config.is_object() || !config.contains(name)) {
    return ids;
  }
  const Json& value = config[name];
  const auto add = [&ids, vocab_size](const Json& id) {
    if (id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < vocab_size) {
      ids.push_back(id.get<int32_t>());
    }
  };
  if (value.is_array()) {
    std::for_each(value.begin(), value.end(), add);
  } else {
    add(value);
  }
  return ids;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerFile file) {
  auto parts = std::make_unique<Parts>();
  parts->file = std::move(file);
  if (Status status = parts->build(); !status) {
    return status.error();
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(parts)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::parse(std::string_view json, std::string_view source,
                                                    std::string_view config) {
  Result<TokenizerFile> file = read_tokenizer_json(json, source);
  if (!file) {
    return file.error();
  }
  if (!config.empty()) {
    Result<Json> read = parse_json(config, concat(source, ": tokenizer_config.json"));
    if (!read) {
      return read.error();
    }
    file->config = std::move(*read);
  }
  Result<std::unique_ptr<Tokenizer>> tokenizer = create(std::move(*file));
  if (!tokenizer) {
    return input_error(source, ": ", tokenizer.error().message);
  }
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::load(const std::string& path) {
  std::filesystem::path folder = path;
  std::filesystem::path main_file = folder / "tokenizer.json";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    main_file = folder;
    folder = main_file.parent_path();
  }
  Result<std::string> text = read_file(main_file);
  if (!text) {
    return text.error();
  }
  Result<TokenizerFile> file = read_tokenizer_json(*text, main_file.string());
  if (!file) {
    return file.error();
  }
  text = std::string();  // it may be large
  Result<Json> tokenizer_config = read_optional_json(folder / "tokenizer_config.json");
  if (!tokenizer_config) {
    return tokenizer_config.error();
  }
  Result<Json> model_config = read_optional_json(folder / "config.json");
  if (!model_config) {
    return model_config.error();
  }
  file->config = std::move(*tokenizer_config);
  Result<std::unique_ptr<Tokenizer>> tokenizer = create(std::move(*file));
  if (!tokenizer) {
    return input_error(main_file.string(), ": ", tokenizer.error().message);
  }
  Parts& parts = *(*tokenizer)->parts_;
  const std::vector<int32_t> bos = ids_in(*model_config, "bos_token_id", parts.vocab_size);
  if (!parts.bos_id && !bos.empty()) {
    parts.bos_id = bos[0];
  }
  for (const int32_t id : ids_in(*model_config, "eos_token_id", parts.vocab_size)) {
    if (std::find(parts.eos_ids.begin(), parts.eos_ids.end(), id) == parts.eos_ids.end()) {
      parts.eos_ids.push_back(id);
    }
  }
  return tokenizer;
}

uint64_t Tokenizer::fingerprint() const {
  return stream_of(write_tokenizer_json(parts_->file));
}

Status Tokenizer::save(const std::string& path) const {
  const std::string text = write_tokenizer_json(parts_->file);
  if (path.ends_with(".json")) {
    return write_file(path, text);
  }
  const std::filesystem::path folder = path;
  if (Status status = make_folder(folder); !status) {
    return status;
  }
  Json config = parts_->file.config;
  if (!config.is_object()) {
    config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
    if (const std::optional<int32_t> bos = bos_id()) {
      config["bos_token"] = *token_of_id(*bos);
    }
    if (const std::optional<int32_t> eos = eos_id()) {
      config["eos_token"] = *token_of_id(*eos);
    }
  }
  if (Status status = write_file(folder / "tokenizer_config.json", config.dump(2) + "\n");
      !status) {
    return status;
  }
  return write_file(folder / "tokenizer.json", text);
}

}  // namespace cadre::data
