// Fuzzes what reads files that somebody else wrote: the header of safetensors, the index of shards,
// and the manifest. The first byte of the input chooses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/check.h"
#include "checkpoint/manifest.h"
#include "checkpoint/model_index.h"
#include "checkpoint/safetensors.h"
#include "storage/checksum.h"

namespace cadre {
namespace {

// What was accepted must keep its promises: tensors inside the file, one after the other.
void check_header(std::string_view file) {
  const auto bytes = static_cast<int64_t>(file.size());
  const Result<SafetensorsHeader> header = parse_safetensors_header(file, bytes, "fuzz");
  if (!header) {
    return;
  }
  int64_t end = header->tensors.empty() ? bytes : header->tensors.front().offset;
  for (const StoredTensor& tensor : header->tensors) {
    CADRE_CHECK_EQ(tensor.offset, end);
    end += tensor.bytes;
  }
  CADRE_CHECK_EQ(end, bytes);
}

// A manifest's own checksum would stop nearly every mutation: it is mended first.
std::string mended(std::string_view input) {
  constexpr std::string_view kBefore = "\"manifest_xxh3_64\": \"";
  std::string text(input);
  const size_t at = text.find(kBefore);
  if (at != std::string::npos && at + kBefore.size() + 16 <= text.size()) {
    text.replace(at + kBefore.size(), 16, std::string(16, '0'));
    const uint64_t checksum = checksum_of(std::as_bytes(std::span(text)));
    text.replace(at + kBefore.size(), 16, checksum_text(checksum));
  }
  return text;
}

void check_manifest(std::string_view input) {
  const Result<Manifest> manifest = parse_manifest(mended(input), "fuzz");
  if (manifest) {
    const Result<Manifest> again = parse_manifest(format_manifest(*manifest), "again");
    CADRE_CHECK(again.ok() && *again == *manifest);
  }
}

}  // namespace
}  // namespace cadre

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      static_cast<void>(cadre::parse_model_index(input, "fuzz"));
      break;
    case 1:
      cadre::check_manifest(input);
      break;
    default:
      cadre::check_header(input);
      break;
  }
  return 0;
}
