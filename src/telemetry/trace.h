// Trace: what a step costs, booked while it runs. Kernels book ops, communicators book messages,
// arenas book memory; each books the same on every device, so a rehearsal on meta equals the run.

#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace cadre {

enum class MemoryCategory {
  kParameters,     // values in the dtype that is computed with
  kGradients,      // fp32
  kOptimizer,      // fp32 masters where the parameters are narrower, and moments
  kActivations,    // what a micro-batch keeps for its backward pass, and what flows between layers
  kWorkspace,      // a kernel's scratch
  kCommunication,  // buffers of collectives
};
inline constexpr size_t kMemoryCategories = 6;

constexpr std::string_view name_of(MemoryCategory category) {
  constexpr std::array<std::string_view, kMemoryCategories> kNames = {
      "parameters", "gradients", "optimizer", "activations", "workspace", "communication"};
  return kNames[static_cast<size_t>(category)];
}

// What the op must do, whatever the backend: bytes are those of its operands, each moved once.
struct BookedOp {
  std::string_view name;  // a string literal
  int64_t flops = 0;      // a multiplication and an addition are two
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;

  bool operator==(const BookedOp&) const = default;
};

struct BookedMessage {
  std::string_view name;  // a string literal
  int64_t bytes = 0;      // of this rank's buffer; what crosses a wire is the transport's to count
  int group_size = 0;
  std::string_view group = {};  // a string literal: the way of splitting that the group serves
  int peer = -1;                // in the group: of a send or a receive, and the root of a broadcast

  bool operator==(const BookedMessage&) const = default;
};

struct BookedMemory {
  int64_t bytes_net = 0;   // allocated minus freed since the segment began; may be negative
  int64_t bytes_peak = 0;  // the largest bytes_net so far

  bool operator==(const BookedMemory&) const = default;
};

// Everything booked between two cuts, such as the forward pass of one block.
struct Segment {
  std::vector<BookedOp> ops;
  std::vector<BookedMessage> messages;
  std::array<BookedMemory, kMemoryCategories> memory;

  const BookedMemory& of(MemoryCategory category) const {
    return memory[static_cast<size_t>(category)];
  }

  bool operator==(const Segment&) const = default;
};

// When an op ran; clocked only while Trace::time_ops(true).
struct TimedOp {
  BookedOp op;
  int64_t start_ns = 0;  // steady clock
  int64_t end_ns = 0;
};

// One per rank, used by that rank's thread only.
class Trace {
 public:
  // Lives as long as the op runs, so that the op can be timed.
  class [[nodiscard]] Span {
   public:
    Span(Trace& trace, const BookedOp& op) : trace_(trace) {
      if (trace_.timing_) {
        timed_ = {.op = op, .start_ns = now_ns()};
      }
    }
    ~Span() {
      if (trace_.timing_) {
        timed_.end_ns = now_ns();
        trace_.timed_.push_back(timed_);
      }
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Trace& trace_;
    TimedOp timed_;
  };

  Span book(const BookedOp& op) {
    segment_.ops.push_back(op);
    return Span(*this, op);
  }
  void book(const BookedMessage& message) { segment_.messages.push_back(message); }

  // Positive when bytes are allocated, negative when they are freed.
  void book_memory(MemoryCategory category, int64_t bytes) {
    BookedMemory& memory = segment_.memory[static_cast<size_t>(category)];
    memory.bytes_net += bytes;
    memory.bytes_peak = std::max(memory.bytes_peak, memory.bytes_net);
  }

  // Ends the current segment, returns it and begins the next.
  Segment cut() { return std::exchange(segment_, {}); }

  // As cut(), for who does not look at the segment: keeps its memory, so that a steady step
  // allocates nothing.
  void discard() {
    segment_.ops.clear();
    segment_.messages.clear();
    segment_.memory = {};
  }
  const Segment& current() const { return segment_; }

  void time_ops(bool on) { timing_ = on; }
  std::vector<TimedOp> take_timed_ops() { return std::exchange(timed_, {}); }

 private:
  static int64_t now_ns() {
    const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
  }

  Segment segment_;
  std::vector<TimedOp> timed_;
  bool timing_ = false;
};

}  // namespace cadre
