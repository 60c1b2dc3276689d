#include <algorithm>

#include "data/tokenizer/tokenizer_file.h"

namespace cadre::data {
namespace {

std::string quoted(const std::string& text) {
  return Json(text).dump();
}

Json added_tokens_of(const TokenizerFile& file) {
  Json list = Json::array();
  for (const AddedToken& token : file.added_tokens) {
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

// The model without its tables.
Json model_of(const TokenizerFile& file) {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", file.unk_token ? Json(*file.unk_token) : Json(nullptr)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", file.fuse_unk},
          {"byte_fallback", file.byte_fallback},
          {"ignore_merges", file.ignore_merges}};
}

void append_vocab(const TokenizerFile& file, std::string& text) {
  text += "    \"vocab\": {";
  const char* separator = "\n";
  for (size_t id = 0; id < file.vocab.size(); ++id) {
    if (file.vocab[id]) {
      text += concat(separator, "      ", quoted(*file.vocab[id]), ": ", id);
      separator = ",\n";
    }
  }
  text += "\n    },\n";
}

// "left right", which every version of Hugging Face's library reads; pairs where a token has a
// space.
void append_merges(const TokenizerFile& file, std::string& text) {
  const bool in_pairs = std::any_of(file.vocab.begin(), file.vocab.end(), [](const auto& token) {
    return token && token->find(' ') != std::string::npos;
  });
  text += "    \"merges\": [";
  const char* separator = "\n";
  for (const Merge& merge : file.merges) {
    const std::string& left = *file.vocab[static_cast<size_t>(merge.left)];
    const std::string& right = *file.vocab[static_cast<size_t>(merge.right)];
    text += separator;
    text += in_pairs ? concat("      [", quoted(left), ", ", quoted(right), "]")
                     : concat("      ", quoted(left + " " + right));
    separator = ",\n";
  }
  text += "\n    ]\n";
}

}  // namespace

std::string write_tokenizer_json(const TokenizerFile& file) {
  const Json head = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added_tokens_of(file)},
                     {"normalizer", file.normalizer},
                     {"pre_tokenizer", file.pre_tokenizer},
                     {"post_processor", file.post_processor},
                     {"decoder", file.decoder}};
  // Two objects are left open by cutting their last brace off: "{...\n}".
  std::string text = head.dump(2);
  text.resize(text.size() - 2);
  text += ",\n  \"model\": {\n";
  const Json model = model_of(file);
  for (const auto& [name, value] : model.items()) {
    text += concat("    ", quoted(name), ": ", value.dump(), ",\n");
  }
  append_vocab(file, text);
  append_merges(file, text);
  text += "  }\n}\n";
  return text;
}

}  // namespace cadre::data
