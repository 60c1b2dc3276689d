#include "storage/checksum.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "storage/file.h"

namespace cadre {

struct Checksum::State {
  State() { CADRE_CHECK(hash != nullptr, "no memory for the state of a checksum"); }
  ~State() { XXH3_freeState(hash); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* hash = XXH3_createState();
};

Checksum::Checksum() : state_(std::make_unique<State>()) {
  CADRE_CHECK(XXH3_64bits_reset(state_->hash) == XXH_OK);
}
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  CADRE_CHECK(XXH3_64bits_update(state_->hash, bytes.data(), bytes.size()) == XXH_OK);
}

uint64_t Checksum::value() const {
  return XXH3_64bits_digest(state_->hash);
}

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(uint64_t checksum) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[i] = kDigits[(checksum >> (60 - 4 * i)) & 15u];
  }
  return text;
}

std::optional<uint64_t> parse_checksum(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size() ||
      checksum_text(value) != text) {  // neither capitals nor a sign
    return std::nullopt;
  }
  return value;
}

Result<FileSummary> summarize_file(const std::filesystem::path& path, std::span<std::byte> buffer) {
  CADRE_CHECK(!buffer.empty());
  const Result<ReadableFile> file = ReadableFile::open(path);
  if (!file) {
    return file.error();
  }
  Checksum checksum;
  for (int64_t offset = 0; offset < file->bytes();) {
    const int64_t count = std::min(std::ssize(buffer), file->bytes() - offset);
    const std::span<std::byte> part = buffer.first(static_cast<size_t>(count));
    if (Status status = file->read_at(offset, part); !status) {
      return status.error();
    }
    checksum.add(part);
    offset += count;
  }
  return FileSummary{.bytes = file->bytes(), .checksum = checksum.value()};
}

}  // namespace cadre
