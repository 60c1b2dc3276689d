// Result<T>: a value, or why the world refused it. For what a caller can act on: files,
// configuration, cluster calls. Our own bugs are CADRE_CHECK, a step that dies is StepError.

#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace cadre {

enum class ErrorKind {
  kInput,    // the configuration, a file or a flag is wrong: exit code 2, nothing was changed
  kFailure,  // the machine failed: disk full, a file that vanished: exit code 1
};

struct Error {
  ErrorKind kind = ErrorKind::kInput;
  std::string message;  // operation, value found, value wanted, way out; lower case, no full stop
};

template <typename... Parts>
Error input_error(const Parts&... parts) {
  return {ErrorKind::kInput, concat(parts...)};
}

template <typename... Parts>
Error failure(const Parts&... parts) {
  return {ErrorKind::kFailure, concat(parts...)};
}

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const Error& error() const {
    CADRE_CHECK(!ok(), "a result that succeeded has no error");
    return std::get<1>(state_);
  }
  T& value() & {
    CADRE_CHECK(ok(), error_message());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CADRE_CHECK(ok(), error_message());
    return std::get<0>(state_);
  }
  // By value: what a loop over *f() walks lives as long as the loop.
  T value() && {
    CADRE_CHECK(ok(), error_message());
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  const std::string& error_message() const { return std::get<1>(state_).message; }

  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const Error& error() const {
    CADRE_CHECK(!ok_, "a result that succeeded has no error");
    return error_;
  }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

}  // namespace cadre
