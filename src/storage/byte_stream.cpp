#include "storage/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.h"
#include "storage/file.h"

namespace cadre {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;

class PlainStream final : public ByteStream {
 public:
  PlainStream(std::filesystem::path path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  const std::filesystem::path& path() const { return path_; }

  Result<size_t> read(std::span<char> buffer) override {
    for (;;) {
      const ssize_t count = ::read(file_.number(), buffer.data(), buffer.size());
      if (count >= 0) {
        return static_cast<size_t>(count);
      }
      if (errno != EINTR) {
        return file_error("read", path_, errno);
      }
    }
  }

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

// The compressed bytes that are waiting to be looked at, and where in the file they stand.
class CompressedInput {
 public:
  explicit CompressedInput(PlainStream file) : file_(std::move(file)), buffer_(kReadBytes) {}

  // Reads on if nothing is waiting. False at the end of the file.
  Result<bool> fill() {
    if (begin_ == end_) {
      const Result<size_t> count = file_.read(buffer_);
      if (!count) {
        return count.error();
      }
      begin_ = 0;
      end_ = *count;
    }
    return begin_ < end_;
  }
  std::span<char> waiting() { return std::span(buffer_).subspan(begin_, end_ - begin_); }
  void take(size_t bytes) {
    begin_ += bytes;
    offset_ += static_cast<int64_t>(bytes);
  }

  Error corrupt(std::string_view format, std::string_view what) const {
    return input_error("cannot read \"", file_.path().string(), "\" as ", format, ": ", what,
                       " at byte ", offset_, " of the file");
  }
  Error cut_off(std::string_view format) const {
    return corrupt(format, "it is cut off in the middle of its compressed data; it ends");
  }

 private:
  PlainStream file_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t offset_ = 0;
};

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(PlainStream file) : input_(std::move(file)) {
    constexpr int kGzipOnly = 15 + 16;  // the largest window; a gzip header must be there
    CADRE_CHECK_EQ(inflateInit2(&inflater_, kGzipOnly), Z_OK);
  }
  ~GzipStream() override { inflateEnd(&inflater_); }

  Result<size_t> read(std::span<char> buffer) override {
    CADRE_CHECK(!buffer.empty());
    for (;;) {
      const Result<bool> more = input_.fill();
      if (!more) {
        return more.error();
      }
      if (!*more) {
        return between_members_ ? Result<size_t>(size_t{0}) : input_.cut_off("gzip");
      }
      const Result<size_t> count = inflate_some(buffer);
      if (!count || *count > 0) {
        return count;
      }
    }
  }

 private:
  Result<size_t> inflate_some(std::span<char> buffer) {
    if (between_members_ && members_ > 0) {
      CADRE_CHECK_EQ(inflateReset(&inflater_), Z_OK);
    }
    between_members_ = false;
    const std::span<char> waiting = input_.waiting();
    inflater_.next_in = reinterpret_cast<Bytef*>(waiting.data());
    inflater_.avail_in = static_cast<uInt>(waiting.size());
    inflater_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    inflater_.avail_out = static_cast<uInt>(std::min(buffer.size(), kReadBytes));
    const uInt room = inflater_.avail_out;
    const int code = inflate(&inflater_, Z_NO_FLUSH);
    input_.take(waiting.size() - inflater_.avail_in);
    if (code == Z_STREAM_END) {
      between_members_ = true;
      ++members_;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return input_.corrupt("gzip", inflater_.msg == nullptr ? zError(code) : inflater_.msg);
    }
    return size_t{room - inflater_.avail_out};
  }

  CompressedInput input_;
  z_stream inflater_ = {};
  bool between_members_ = false;  // an empty file is not gzip: it is cut off
  int64_t members_ = 0;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(PlainStream file) : input_(std::move(file)), context_(ZSTD_createDCtx()) {
    CADRE_CHECK(context_ != nullptr, "zstd has no memory for a context");
  }
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }

  Result<size_t> read(std::span<char> buffer) override {
    CADRE_CHECK(!buffer.empty());
    for (;;) {
      // With nothing waiting zstd may still hold text that did not fit into the last buffer.
      const Result<bool> more = input_.fill();
      if (!more) {
        return more.error();
      }
      ZSTD_inBuffer in = {input_.waiting().data(), input_.waiting().size(), 0};
      ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
      if (!*more && (in_frame_ == false || !holds_text_)) {
        return in_frame_ ? input_.cut_off("zstd") : Result<size_t>(size_t{0});
      }
      const size_t code = ZSTD_decompressStream(context_, &out, &in);
      if (ZSTD_isError(code) != 0) {
        return input_.corrupt("zstd", ZSTD_getErrorName(code));
      }
      input_.take(in.pos);
      in_frame_ = code != 0;  // 0: a frame has ended and all of its text was handed out
      holds_text_ = out.pos == out.size;
      if (out.pos > 0) {
        return out.pos;
      }
    }
  }

 private:
  CompressedInput input_;
  ZSTD_DCtx* context_;
  bool in_frame_ = true;  // an empty file is not zstd: it is cut off
  bool holds_text_ = false;
};

}  // namespace

Result<std::unique_ptr<ByteStream>> open_byte_stream(const std::filesystem::path& path) {
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor.is_open()) {
    return file_error("open", path, errno);
  }
  PlainStream file(path, std::move(descriptor));
  std::unique_ptr<ByteStream> stream;
  if (path.extension() == ".gz") {
    stream = std::make_unique<GzipStream>(std::move(file));
  } else if (path.extension() == ".zst") {
    stream = std::make_unique<ZstdStream>(std::move(file));
  } else {
    stream = std::make_unique<PlainStream>(std::move(file));
  }
  return stream;
}

std::filesystem::path without_compression(const std::filesystem::path& path) {
  const bool compressed = path.extension() == ".gz" || path.extension() == ".zst";
  return compressed ? std::filesystem::path(path).replace_extension() : path;
}

LineReader::LineReader(std::unique_ptr<ByteStream> stream, std::string source,
                       const Options& options)
    : stream_(std::move(stream)),
      source_(std::move(source)),
      options_(options),
      buffer_(kReadBytes) {}

Result<std::optional<std::string_view>> LineReader::next() {
  size_t searched = begin_;
  for (;;) {
    const char* const start = buffer_.data() + begin_;
    const void* const newline = std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    if (newline != nullptr || (at_end_ && begin_ < end_)) {
      const char* const stop =
          newline == nullptr ? buffer_.data() + end_ : static_cast<const char*>(newline);
      const std::string_view line(start, static_cast<size_t>(stop - start));
      begin_ += line.size() + (newline == nullptr ? 0 : 1);
      ++line_number_;
      return std::optional(line);
    }
    if (at_end_) {
      return std::optional<std::string_view>();
    }
    searched = end_ - begin_;
    std::memmove(buffer_.data(), start, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    if (static_cast<int64_t>(end_) > options_.line_bytes_max) {
      return input_error(source_, ":", line_number_ + 1, ": a line of more than ",
                         options_.line_bytes_max, " bytes; is this text?");
    }
    if (end_ == buffer_.size()) {
      buffer_.resize(2 * buffer_.size());
    }
    const Result<size_t> count = stream_->read(std::span(buffer_).subspan(end_));
    if (!count) {
      return count.error();
    }
    end_ += *count;
    at_end_ = *count == 0;
  }
}

}  // namespace cadre
