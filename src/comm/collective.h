// Collective: what may be asked of the group of ranks that shares a layer.
//
// Every call is asynchronous: it returns a Pending, and the buffer belongs to the transport until
// wait() returns. All ranks of a group make the same calls in the same order; they may wait in any.

#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "base/check.h"
#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::comm {

// A collective in flight. (On a device with streams wait() holds up the stream, not the host.)
class [[nodiscard]] Pending {
 public:
  Pending() = default;  // nothing to wait for
  explicit Pending(std::function<void()> finish) : finish_(std::move(finish)) {}
  Pending(Pending&& other) noexcept : finish_(std::exchange(other.finish_, nullptr)) {}
  Pending& operator=(Pending&&) = delete;

  // A StepError that passes by abandons the step, and what is in flight with it.
  ~Pending() {
    CADRE_CHECK(!finish_ || std::uncaught_exceptions() > 0, "a collective was never waited for");
  }

  void wait() {
    if (finish_) {
      std::exchange(finish_, nullptr)();
    }
  }

 private:
  std::function<void()> finish_;
};

struct Position {
  int rank = 0;
  int size = 1;
};

class Collective {
 public:
  explicit Collective(Position position) : position_(position) {}
  virtual ~Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  int rank() const { return position_.rank; }
  int size() const { return position_.size; }

  // Replaces `values`, on every rank, by their sum in rank order: the same bits on every rank and
  // in every run. A group of one has nothing to add; it books and sends nothing.
  Pending all_reduce_sum(Context& context, Tensor values) {
    return all_reduce(context, "all_reduce_sum", values, &Collective::start_all_reduce_sum);
  }

  // The same with the largest value instead of the sum.
  Pending all_reduce_max(Context& context, Tensor values) {
    return all_reduce(context, "all_reduce_max", values, &Collective::start_all_reduce_max);
  }

 private:
  using Start = Pending (Collective::*)(Context& context, Tensor values);

  Pending all_reduce(Context& context, std::string_view name, Tensor values, Start start) {
    if (size() == 1) {
      return {};
    }
    CADRE_CHECK(values.packed(), "shape ", values.shape, ", strides ", values.strides);
    context.trace.book(BookedMessage{.name = name, .bytes = values.bytes(), .group_size = size()});
    return (this->*start)(context, values);
  }

  virtual Pending start_all_reduce_sum(Context& context, Tensor values) = 0;
  virtual Pending start_all_reduce_max(Context& context, Tensor values) = 0;

  Position position_;
};

// The transports, each in its own folder.
std::unique_ptr<Collective> make_recorded(Position position);  // for meta, and the group of one

}  // namespace cadre::comm
