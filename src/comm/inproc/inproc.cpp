// Where the threads of a group meet, once per call. The last to arrive computes for all, so that a
// rank may wait for its calls in any order and no buffer is overwritten while another rank reads.

#include "comm/inproc.h"

#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/step_error.h"

namespace cadre::comm {
namespace {

enum class Operation { kSum, kMax };

std::string_view name_of(Operation operation) {
  return operation == Operation::kSum ? "all_reduce_sum" : "all_reduce_max";
}

// Narrow floats are added in fp32. Integers wrap, as they do on every machine we run on.
template <typename T>
using Accumulator = std::conditional_t<std::is_same_v<T, int32_t>, int64_t, float>;

template <typename T>
Accumulator<T> widen(T value) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <typename T>
T narrow(Accumulator<T> value) {
  if constexpr (std::is_same_v<T, int32_t>) {
    return static_cast<int32_t>(value);
  } else {
    return from_float<T>(value);
  }
}

template <typename Value>
Value combine(Operation operation, Value left, Value right) {
  if (operation == Operation::kSum) {
    return left + right;
  }
  if constexpr (std::is_floating_point_v<Value>) {
    if (std::isnan(
            left)) {  // a NaN stays one; std::max keeps or loses it by the order of the ranks
      return left;
    }
  }
  return left > right ? left : right;
}

// Element by element in rank order, whoever came last.
template <typename T>
void reduce(Operation operation, const std::vector<Tensor>& buffers) {
  const int64_t count = buffers.front().shape.elements();
  for (int64_t i = 0; i < count; ++i) {
    Accumulator<T> value = widen(buffers.front().begin<T>()[i]);
    for (const Tensor& buffer : std::span(buffers).subspan(1)) {
      value = combine(operation, value, widen(buffer.begin<T>()[i]));
    }
    const T result = narrow<T>(value);
    for (const Tensor& buffer : buffers) {
      buffer.begin<T>()[i] = result;
    }
  }
}

void reduce(Operation operation, const std::vector<Tensor>& buffers) {
  switch (buffers.front().dtype) {
    case DType::kF32:
      return reduce<float>(operation, buffers);
    case DType::kBf16:
      return reduce<Bf16>(operation, buffers);
    case DType::kF16:
      return reduce<F16>(operation, buffers);
    case DType::kI32:
      return reduce<int32_t>(operation, buffers);
  }
}

struct Call {
  Operation operation = Operation::kSum;
  int64_t sequence = 0;  // of the group's calls, from 0
  Tensor values;

  bool matches(const Call& other) const {
    return operation == other.operation && values.dtype == other.values.dtype &&
           values.shape.elements() == other.values.shape.elements();
  }
};

std::ostream& operator<<(std::ostream& out, const Call& call) {
  return out << name_of(call.operation) << " " << call.sequence << " ("
             << call.values.shape.elements() << " " << cadre::name_of(call.values.dtype) << ")";
}

class MeetingPlace {
 public:
  MeetingPlace(int size, std::chrono::milliseconds timeout)
      : timeout_(timeout), ranks_(static_cast<size_t>(size)) {}

  void arrive(int rank, const Call& call) {
    const std::lock_guard lock(mutex_);
    throw_if_failed();
    Rank& own = ranks_[static_cast<size_t>(rank)];
    own.last_call = call;
    Meeting& meeting = meetings_[call.sequence];
    meeting.calls.resize(ranks_.size());
    for (const std::optional<Call>& other : meeting.calls) {
      if (other && !other->matches(call)) {
        fail(concat("the ranks differ in call ", call.sequence, " of their group"));
        throw_if_failed();
      }
    }
    meeting.calls[static_cast<size_t>(rank)] = call;
    if (++meeting.arrived == ranks_.size()) {
      std::vector<Tensor> buffers;
      for (const std::optional<Call>& each : meeting.calls) {
        buffers.push_back(each->values);
      }
      reduce(call.operation, buffers);
      changed_.notify_all();
    }
  }

  void leave(int rank, int64_t sequence) {
    std::unique_lock lock(mutex_);
    const auto is_over = [&] {
      return !failure_.empty() || is_complete(sequence) || missing(sequence, true) >= 0;
    };
    const bool in_time = changed_.wait_for(lock, timeout_, is_over);
    if (failure_.empty() && !is_complete(sequence)) {
      const Call& call = *meetings_.at(sequence).calls[static_cast<size_t>(rank)];
      if (in_time) {
        fail(concat(call, ": rank ", rank, " waits for rank ", missing(sequence, true),
                    ", which has ended"));
      } else {
        fail(concat(call, ": rank ", rank, " waited ", timeout_.count(), " ms for rank ",
                    missing(sequence, false)));
      }
    }
    // What was computed before the failure is whole, but the group's next call cannot be.
    throw_if_failed();
    Meeting& meeting = meetings_.at(sequence);
    if (++meeting.left == ranks_.size()) {
      meetings_.erase(sequence);
    }
  }

  // The buffer of a call that is not waited for may be gone at once.
  void give_up(int rank, int64_t sequence) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) {
      fail(concat("rank ", rank, " gave up waiting for call ", sequence, " of its group"));
    }
  }

  void end(int rank) {
    const std::lock_guard lock(mutex_);
    ranks_[static_cast<size_t>(rank)].has_ended = true;
    changed_.notify_all();
  }

 private:
  struct Rank {
    std::optional<Call> last_call;
    bool has_ended = false;
  };
  struct Meeting {
    std::vector<std::optional<Call>> calls;  // by rank
    size_t arrived = 0;
    size_t left = 0;
  };

  bool is_complete(int64_t sequence) const {
    return meetings_.at(sequence).arrived == ranks_.size();
  }

  // The first rank that has not come to call `sequence`, of all or of those that have ended; or -1.
  int missing(int64_t sequence, bool ended) const {
    const Meeting& meeting = meetings_.at(sequence);
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!meeting.calls[rank] && (!ended || ranks_[rank].has_ended)) {
        return static_cast<int>(rank);
      }
    }
    return -1;
  }

  void fail(const std::string& reason) {
    std::ostringstream out;
    out << reason;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      out << "; rank " << rank << (ranks_[rank].has_ended ? " has ended after " : " last called ");
      if (ranks_[rank].last_call) {
        out << *ranks_[rank].last_call;
      } else {
        out << "nothing";
      }
    }
    failure_ = out.str();
    changed_.notify_all();
  }

  void throw_if_failed() const {
    if (!failure_.empty()) {
      throw StepError(failure_);
    }
  }

  std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::map<int64_t, Meeting> meetings_;  // by sequence number; those that some rank has not left
  std::string failure_;                  // once set, every rank throws it
};

// One rank's place in a call until it has left; who destroys it earlier has given up.
class Ticket {
 public:
  Ticket(std::shared_ptr<MeetingPlace> place, int rank, const Call& call)
      : place_(std::move(place)), rank_(rank), sequence_(call.sequence) {
    place_->arrive(rank, call);
  }
  ~Ticket() {
    if (!used_) {
      place_->give_up(rank_, sequence_);
    }
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  void leave() {
    used_ = true;
    place_->leave(rank_, sequence_);
  }

 private:
  std::shared_ptr<MeetingPlace> place_;  // owned by members and tickets: any may be the last to end
  int rank_;
  int64_t sequence_;
  bool used_ = false;
};

class InprocCollective final : public Collective {
 public:
  InprocCollective(Position position, std::shared_ptr<MeetingPlace> place)
      : Collective(position), place_(std::move(place)) {}
  ~InprocCollective() override { place_->end(rank()); }

 private:
  Pending start_all_reduce_sum(Context& context, Tensor values) override {
    return start(context, Operation::kSum, values);
  }
  Pending start_all_reduce_max(Context& context, Tensor values) override {
    return start(context, Operation::kMax, values);
  }

  Pending start(const Context& context, Operation operation, Tensor values) {
    CADRE_CHECK(!context.is_meta(), "inproc moves data; meta has none");
    const Call call{.operation = operation, .sequence = next_sequence_++, .values = values};
    // Shared only because std::function copies what it holds; the Pending is its one owner.
    const auto ticket = std::make_shared<Ticket>(place_, rank(), call);
    return Pending([ticket] { ticket->leave(); });
  }

  std::shared_ptr<MeetingPlace> place_;  // see Ticket
  int64_t next_sequence_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> make_inproc(int size, std::chrono::milliseconds timeout) {
  CADRE_CHECK(size > 0, size, " ranks");
  const auto place = std::make_shared<MeetingPlace>(size, timeout);
  std::vector<std::unique_ptr<Collective>> ranks;
  ranks.reserve(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(
        std::make_unique<InprocCollective>(Position{.rank = rank, .size = size}, place));
  }
  return ranks;
}

}  // namespace cadre::comm
