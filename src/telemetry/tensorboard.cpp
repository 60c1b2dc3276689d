#include "telemetry/tensorboard.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace cadre {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82F63B78u : 0u);
    }
    table[byte] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

// A CRC of data that hold CRCs is weak, so the format rotates and shifts it.
uint32_t masked(uint32_t crc) {
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

template <typename Word>
void put_little_endian(std::string& out, Word word) {
  for (size_t i = 0; i < sizeof(Word); ++i) {
    out += static_cast<char>((word >> (8 * i)) & 0xFF);
  }
}

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>((value & 0x7F) | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

enum class WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_key(std::string& out, uint64_t field, WireType type) {
  put_varint(out, (field << 3) | static_cast<uint64_t>(type));
}

void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  put_key(out, field, WireType::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

double wall_time_seconds() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since_epoch).count();
}

std::string event_head() {
  std::string event;
  put_key(event, 1, WireType::kFixed64);
  put_little_endian(event, std::bit_cast<uint64_t>(wall_time_seconds()));
  return event;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFu];
  }
  return ~crc;
}

Result<TensorBoardFile> TensorBoardFile::create(const std::filesystem::path& folder) {
  const auto seconds = static_cast<int64_t>(wall_time_seconds());
  // Two runs within a second must not write into one file.
  for (int attempt = 0;; ++attempt) {
    const std::filesystem::path path =
        folder / concat("events.out.tfevents.", seconds + attempt, ".cadre");
    std::FILE* const file = std::fopen(path.c_str(), "wbx");
    if (file == nullptr && errno == EEXIST) {
      continue;
    }
    if (file == nullptr) {
      return failure(path.string(), ": cannot be written: ", std::strerror(errno));
    }
    TensorBoardFile result(path, file);
    std::string event = event_head();
    put_bytes(event, 3, "brain.Event:2");
    if (Status status = result.write_record(event); !status.ok()) {
      return status.error();
    }
    return result;
  }
}

Status TensorBoardFile::append(int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, WireType::kFixed32);
    put_little_endian(value, std::bit_cast<uint32_t>(static_cast<float>(scalar.value)));
    put_bytes(summary, 1, value);
  }
  std::string event = event_head();
  put_key(event, 2, WireType::kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  put_bytes(event, 5, summary);
  return write_record(event);
}

Status TensorBoardFile::write_record(const std::string& data) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(data.size()));
  put_little_endian(record, masked(crc32c(record)));
  record += data;
  put_little_endian(record, masked(crc32c(data)));
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size() ||
      std::fflush(file_.get()) != 0) {
    return failure(path_.string(), ": cannot be written: ", std::strerror(errno));
  }
  return {};
}

}  // namespace cadre
