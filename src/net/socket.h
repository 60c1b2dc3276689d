// Sockets of TCP with time limits: nothing here waits for ever.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace cadre::net {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

// A connection or a listener, closed at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~Socket();

  int file() const { return file_; }
  bool valid() const { return file_ >= 0; }

 private:
  int file_ = -1;
};

struct Endpoint {
  std::string host;  // a name or an address
  int port = 0;
};

// On every address of this machine, IPv6 and IPv4; port 0: any that is free.
Result<Socket> listen_on(int port);
int port_of(const Socket& socket);

// Nothing comes until the deadline: an error.
Result<Socket> accept_from(const Socket& listener, Deadline deadline);

// Tries again until the deadline while the name is unknown or nobody listens yet: both come late
// when a job starts.
Result<Socket> connect_to(const Endpoint& endpoint, Deadline deadline);

// "10.0.0.7", of the other end.
std::string peer_address(const Socket& socket);

// All of it or an error.
Status send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
Status receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);

// A text with its length in front (4 bytes, little-endian).
Status send_text(const Socket& socket, const std::string& text, Deadline deadline);
Result<std::string> receive_text(const Socket& socket, size_t bytes_max, Deadline deadline);

}  // namespace cadre::net
