// libFuzzer: a tokenizer.json of any bytes is refused or works. Seeds:
// tests/data/tokenizers/*.json.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "data/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  const auto tokenizer = cadre::data::Tokenizer::parse(text, "fuzz");
  if (!tokenizer.ok()) {
    return 0;
  }
  // The file itself is a text, too.
  const std::string_view input = text.substr(0, 2000);
  const auto ids = (*tokenizer)->encode(input);
  (*tokenizer)->decode(ids);
  return 0;
}
