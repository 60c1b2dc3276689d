#include "device/arena.h"

#include <algorithm>

#include "base/check.h"

namespace cadre {

Arena::Arena(MemorySource& source, Trace& trace, const Options& options)
    : source_(source),
      trace_(trace),
      options_(options),
      block_(source.take(options.capacity_bytes)),
      gaps_{{.offset = 0, .bytes = options.capacity_bytes}} {}

Arena::~Arena() {
  CADRE_CHECK(used_ == 0, name_of(options_.category), ": ", used_, " bytes were never given back");
  source_.give_back(block_, options_.capacity_bytes);
}

Arena::Block Arena::allocate(int64_t bytes) {
  // One unit at least, so that blocks of no bytes have addresses of their own.
  const int64_t taken = std::max(align_up(bytes), kAlignment);
  const auto gap = std::ranges::find_if(gaps_, [&](const Gap& g) { return g.bytes >= taken; });
  CADRE_CHECK(gap != gaps_.end(), name_of(options_.category), " arena of ", options_.capacity_bytes,
              " bytes has ", used_, " in use, asked for ", taken);
  const int64_t offset = gap->offset;
  gap->offset += taken;
  gap->bytes -= taken;
  if (gap->bytes == 0) {
    gaps_.erase(gap);
  }
  used_ += taken;
  peak_ = std::max(peak_, offset + taken);
  trace_.book_memory(options_.category, taken);
  return Block(this, block_ + offset, offset, taken);
}

void Arena::release(int64_t offset, int64_t bytes) {
  used_ -= bytes;
  trace_.book_memory(options_.category, -bytes);
  const auto after = std::ranges::lower_bound(gaps_, offset, {}, &Gap::offset);
  const bool joins_before =
      after != gaps_.begin() && std::prev(after)->offset + std::prev(after)->bytes == offset;
  const bool joins_after = after != gaps_.end() && offset + bytes == after->offset;
  if (joins_before && joins_after) {
    std::prev(after)->bytes += bytes + after->bytes;
    gaps_.erase(after);
  } else if (joins_before) {
    std::prev(after)->bytes += bytes;
  } else if (joins_after) {
    after->offset = offset;
    after->bytes += bytes;
  } else {
    gaps_.insert(after, {.offset = offset, .bytes = bytes});
  }
}

}  // namespace cadre
