// TextEncoder: what the preparation of a corpus needs of a tokenizer.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace cadre::data {

struct TextEncoder {
  // Appends the ids of `text` to `ids`, without BOS or EOS. `continues`: it goes on where another
  // text ended. Called from several threads at once. Empty: there is no tokenizer, and text cannot
  // be read.
  std::function<void(std::vector<int32_t>& ids, std::string_view text, bool continues)> encode = {};
  // Whether the token's text ends with the end of a line: a good place to cut a document. Empty:
  // not known.
  std::function<bool(int32_t id)> ends_line = {};
  // Of everything that the ids depend on: prepared shards are thrown away when it changes.
  uint64_t hash = 0;
  // Ends a document of text if the data's append_eos asks for it; cuts raw token files into
  // documents.
  std::optional<int32_t> eos = std::nullopt;
};

}  // namespace cadre::data
