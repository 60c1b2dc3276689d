// Memory that several processes map, and how they come by it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/shm.h"

namespace cadre::comm::shm {

// A file descriptor, closed at the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }
  int release();

 private:
  int number_ = -1;
};

// All of a memfd, mapped.
class Mapping {
 public:
  Mapping() = default;
  static Result<Mapping> of(Descriptor file);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  int file() const { return file_.number(); }

 private:
  Descriptor file_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// `bytes` zeroes; pages come when they are touched.
Result<Descriptor> create_memory(const std::string& name, int64_t bytes);

// Rank 0 creates the memory for control, and for each rank one for data; all get all of it.
struct Shared {
  Mapping control;
  std::vector<Mapping> data;  // by rank
};
Result<Shared> share(const ShmOptions& options);

}  // namespace cadre::comm::shm
