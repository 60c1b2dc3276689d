#include "data/token_shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "storage/file.h"

namespace cadre::data {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are mapped as they are");

constexpr std::array<char, 8> kMagic = {'C', 'A', 'D', 'R', 'E', 'T', 'O', 'K'};
constexpr uint32_t kVersion = 1;

// As it lies in the file.
struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kVersion;
  uint32_t token_bytes = 0;
  uint64_t tokens = 0;
  uint64_t documents = 0;
  uint64_t largest_id = 0;
  uint64_t token_checksum = 0;  // of the tokens and the padding behind them
  uint64_t index_checksum = 0;
  uint64_t header_checksum = 0;  // of the bytes before it
};
static_assert(sizeof(Header) == 64);
static_assert(sizeof(DocumentEntry) == 24);

uint64_t checksum_of_header(const Header& header) {
  return checksum_of(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_checksum)));
}

uint64_t padding_of(uint64_t bytes) {
  return (8 - bytes % 8) % 8;
}

Error damaged(const std::filesystem::path& path, const std::string& what) {
  return failure("token shard \"", path.string(), "\": ", what);
}

// The size that the header asks for, or nullopt if its numbers cannot be those of a file.
std::optional<uint64_t> file_bytes(const Header& header) {
  constexpr uint64_t kCountMax = uint64_t{1} << 48;
  const bool possible = (header.token_bytes == 2 || header.token_bytes == 4) &&
                        header.tokens < kCountMax && header.documents < kCountMax;
  if (!possible) {
    return std::nullopt;
  }
  const uint64_t token_bytes = header.tokens * header.token_bytes;
  return sizeof(Header) + token_bytes + padding_of(token_bytes) +
         header.documents * sizeof(DocumentEntry);
}

Result<Header> read_header(const std::filesystem::path& path, std::span<const std::byte> file) {
  Header header;
  if (file.size() < sizeof(Header)) {
    return damaged(path, fmt::format("{} bytes are no header", file.size()));
  }
  std::memcpy(&header, file.data(), sizeof(Header));
  if (header.magic != kMagic) {
    return damaged(path, "does not begin with CADRETOK");
  }
  if (header.version != kVersion) {
    return damaged(path,
                   fmt::format("version {}, this program reads {}", header.version, kVersion));
  }
  if (header.header_checksum != checksum_of_header(header)) {
    return damaged(path, "the header's checksum is wrong");
  }
  const std::optional<uint64_t> wanted = file_bytes(header);
  if (!wanted || file.size() != *wanted) {
    return damaged(path,
                   fmt::format("{} bytes, the header wants {}", file.size(), wanted.value_or(0)));
  }
  return header;
}

}  // namespace

std::string shard_name(int64_t number) {
  return fmt::format("shard-{:05}.tokens", number);
}

Result<TokenShard> TokenShard::open(const std::filesystem::path& path, Verify verify) {
  Result<MappedFile> file = MappedFile::open(path);
  if (!file) {
    return file.error();
  }
  TokenShard shard;
  shard.path_ = path;
  shard.file_ = std::move(*file);
  const std::span<const std::byte> bytes = shard.file_.bytes();
  const Result<Header> header = read_header(path, bytes);
  if (!header) {
    return header.error();
  }
  shard.tokens_ = static_cast<int64_t>(header->tokens);
  shard.largest_id_ = static_cast<int64_t>(header->largest_id);
  shard.token_bytes_ = header->token_bytes;
  shard.checksum_ = header->header_checksum;
  const uint64_t token_bytes = header->tokens * header->token_bytes;
  shard.token_data_ = bytes.subspan(sizeof(Header), token_bytes + padding_of(token_bytes));
  const auto index = bytes.subspan(sizeof(Header) + shard.token_data_.size());
  // The mapping begins at a page, and all that comes before the index is a multiple of 8 bytes.
  shard.documents_ = {reinterpret_cast<const DocumentEntry*>(index.data()), header->documents};
  if (shard.checksum_in_steps(index) != header->index_checksum) {
    return damaged(path, "the index's checksum is wrong");
  }
  if (verify == Verify::kEverything &&
      shard.checksum_in_steps(shard.token_data_) != header->token_checksum) {
    return damaged(path, "the tokens' checksum is wrong");
  }
  const uint64_t end = shard.documents_.empty() ? 0 : shard.documents_.back().end;
  if (end != header->tokens) {
    return damaged(path, fmt::format("documents end at token {} of {}", end, header->tokens));
  }
  shard.release_pages();
  return shard;
}

// Of a part of the file that may be larger than memory: what was read is given back at once.
uint64_t TokenShard::checksum_in_steps(std::span<const std::byte> bytes) const {
  constexpr size_t kStepBytes = size_t{4} << 20;
  Checksum checksum;
  for (size_t at = 0; at < bytes.size(); at += kStepBytes) {
    checksum.add(bytes.subspan(at, std::min(kStepBytes, bytes.size() - at)));
    release_pages();
  }
  return checksum.value();
}

void TokenShard::read(std::span<int32_t> out, int64_t first) const {
  const auto count = static_cast<int64_t>(out.size());
  CADRE_CHECK(first >= 0 && first + count <= tokens_, first, " + ", count, " of ", tokens_);
  const std::byte* data = token_data_.data() + first * token_bytes_;
  if (token_bytes_ == 4) {
    std::memcpy(out.data(), data, out.size_bytes());
    return;
  }
  const auto* narrow = reinterpret_cast<const uint16_t*>(data);
  std::copy(narrow, narrow + count, out.begin());
}

void TokenShard::release_pages() const {
  const auto bytes = file_.bytes();
  if (!bytes.empty()) {
    // A hint: where it is refused, memory stays resident and nothing else happens.
    static_cast<void>(madvise(const_cast<std::byte*>(bytes.data()), bytes.size(), MADV_DONTNEED));
  }
}

ShardWriter::ShardWriter(std::filesystem::path folder, const Options& options)
    : folder_(std::move(folder)), options_(options), buffer_(kWriteBufferBytes) {
  CADRE_CHECK(options.token_bytes == 2 || options.token_bytes == 4, options.token_bytes);
}

Status ShardWriter::begin_shard() {
  Result<FileWriter> file = FileWriter::create(folder_ / shard_name(shards_), buffer_.bytes());
  if (!file) {
    return file.error();
  }
  file_.emplace(std::move(*file));
  ++shards_;
  token_checksum_ = Checksum();
  shard_tokens_ = 0;
  largest_id_ = 0;
  const Header none;  // takes its place until the counts are known
  return file_->append(std::as_bytes(std::span(&none, 1)));
}

Status ShardWriter::append(std::span<const int32_t> ids) {
  if (ids.empty()) {
    return {};
  }
  if (!file_) {
    if (const Status begun = begin_shard(); !begun) {
      return begun;
    }
  }
  for (const int32_t id : ids) {
    CADRE_CHECK(id >= 0 && (options_.token_bytes == 4 || id < 65536), "id ", id);
    largest_id_ = std::max(largest_id_, static_cast<uint64_t>(id));
  }
  document_checksum_.add(std::as_bytes(ids));
  document_tokens_ += ids.size();
  std::span<const std::byte> bytes = std::as_bytes(ids);
  if (options_.token_bytes == 2) {
    narrow_.resize(ids.size());
    std::ranges::transform(ids, narrow_.begin(),
                           [](int32_t id) { return static_cast<uint16_t>(id); });
    bytes = std::as_bytes(std::span(narrow_));
  }
  token_checksum_.add(bytes);
  return file_->append(bytes);
}

Status ShardWriter::end_document(int64_t text_bytes) {
  if (document_tokens_ == 0) {
    return {};
  }
  shard_tokens_ += document_tokens_;
  tokens_ += static_cast<int64_t>(document_tokens_);
  ++documents_;
  entries_.push_back({.end = shard_tokens_,
                      .hash = document_checksum_.value(),
                      .text_bytes = static_cast<uint64_t>(text_bytes)});
  document_tokens_ = 0;
  document_checksum_ = Checksum();
  const bool full = shard_tokens_ >= static_cast<uint64_t>(options_.shard_tokens) ||
                    entries_.size() >= static_cast<size_t>(options_.shard_documents);
  return full ? end_shard() : Status();
}

Status ShardWriter::end_shard() {
  const uint64_t token_bytes = shard_tokens_ * static_cast<uint64_t>(options_.token_bytes);
  constexpr std::array<std::byte, 8> kPadding = {};
  const auto index = std::as_bytes(std::span(entries_));
  const auto padding = std::span(kPadding).first(padding_of(token_bytes));
  token_checksum_.add(padding);
  Status status = file_->append(padding);
  status = status ? file_->append(index) : status;
  if (!status) {
    return status;
  }
  if (const Result<FileSummary> written = file_->finish(); !written) {
    return written.error();
  }
  file_.reset();
  Header header{.token_bytes = static_cast<uint32_t>(options_.token_bytes),
                .tokens = shard_tokens_,
                .documents = entries_.size(),
                .largest_id = largest_id_,
                .token_checksum = token_checksum_.value(),
                .index_checksum = checksum_of(index)};
  header.header_checksum = checksum_of_header(header);
  entries_.clear();
  const std::filesystem::path path = folder_ / shard_name(shards_ - 1);
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) {
    return file_error("open", path, errno);
  }
  const ssize_t put = pwrite(file.number(), &header, sizeof(header), 0);
  if (put != static_cast<ssize_t>(sizeof(header)) || fsync(file.number()) != 0) {
    return file_error("write", path, errno);
  }
  if (const int error = file.close_now(); error != 0) {
    return file_error("write", path, error);
  }
  return {};
}

Status ShardWriter::finish() {
  CADRE_CHECK_EQ(document_tokens_, 0u);
  return file_ ? end_shard() : Status();
}

}  // namespace cadre::data
