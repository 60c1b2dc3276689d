// SampleStream: numbered training samples, each a pure function of its number.
//
// The sample with number n is the same whoever asks for it, when, and beside which others. So a run
// resumes by asking for the next number, ranks share a batch by asking for different numbers, and
// an evaluation in between disturbs nothing. Numbers go on across the end of an epoch.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cadre::data {

inline constexpr int32_t kIgnoredTarget = -100;  // a position without a target

// What a sample is, for messages and for tests.
struct SampleId {
  int32_t source = -1;  // index in the list of sources; -1: padding
  int64_t epoch = 0;    // how often the source had been used up before
  int64_t index = 0;    // which sequence of the source

  bool operator==(const SampleId&) const = default;
};

// Where one micro-batch of B samples of T positions is written: the caller's memory, every element
// of which fill() overwrites. Row b begins at b * T.
struct Batch {
  std::span<int32_t> tokens;   // [B, T]
  std::span<int32_t> targets;  // [B, T] the token that follows, or kIgnoredTarget
  // [B, T] where the token stands in its document: t - starts[t]
  std::span<int32_t> positions;
  // [B, T] the first index of the row that belongs to the same document; never decreases along a
  // row. Position t attends to [starts[t], t]. All 0 when documents are packed as a plain stream.
  std::span<int32_t> starts;
  std::span<SampleId> ids;  // [B], or empty if nobody asks
};

class SampleStream {
 public:
  SampleStream() = default;
  virtual ~SampleStream() = default;
  SampleStream(const SampleStream&) = delete;
  SampleStream& operator=(const SampleStream&) = delete;

  virtual int64_t sequence_length() const = 0;

  // Samples of one epoch; at least 1.
  virtual int64_t samples_per_epoch() const = 0;

  // Writes samples [first, first + B), B being tokens.size() / sequence_length(), and returns how
  // many positions have a target. Allocates nothing. A training stream has no last sample; past the
  // end of a validation stream come rows of padding, which have no targets. Throws StepError if the
  // data on disk went bad. One thread at a time.
  virtual int64_t fill(int64_t first, const Batch& batch) = 0;

  // Where a sample comes from, for a message: source, files, documents.
  virtual std::string describe(const SampleId& id) const = 0;
};

}  // namespace cadre::data
