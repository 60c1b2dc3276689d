#include "net/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace cadre::net {
namespace {

constexpr std::chrono::milliseconds kPause{50};  // between two tries to connect

std::string describe(int error) {
  return std::strerror(error);
}

bool wait_for(int file, int16_t events, Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd entry{.fd = file, .events = events, .revents = 0};
  return poll(&entry, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000'000))) > 0;
}

void set(const Socket& socket, int level, int name, int value) {
  // Only advice: without it a connection is slower, or its end is seen later.
  static_cast<void>(setsockopt(socket.file(), level, name, &value, sizeof(value)));
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// One try, at every address of the name.
Result<Socket> try_to_connect(const Endpoint& endpoint, Deadline deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int refused = getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &list);
  if (refused != 0) {
    return failure("cannot resolve \"", endpoint.host, "\": ", gai_strerror(refused));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(list);
  int error = ECONNREFUSED;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) {
      error = errno;
      continue;
    }
    if (connect(socket.file(), at->ai_addr, at->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS && wait_for(socket.file(), POLLOUT, deadline)) {
        socklen_t length = sizeof(error);
        getsockopt(socket.file(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
      if (error != 0) {
        continue;
      }
    }
    set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    return socket;
  }
  return failure("cannot connect to ", endpoint.host, ":", endpoint.port, ": ", describe(error));
}

}  // namespace

Socket::~Socket() {
  if (valid()) {
    close(file_);
  }
}

Result<Socket> listen_on(int port) {
  int error = 0;
  for (const int family : {AF_INET6, AF_INET}) {
    Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) {
      error = errno;
      continue;  // a machine without IPv6
    }
    set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_addr = in6addr_any;
    six.sin6_port = htons(static_cast<uint16_t>(port));
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_six = family == AF_INET6;
    const auto* const address =
        is_six ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
    const auto length = static_cast<socklen_t>(is_six ? sizeof(six) : sizeof(four));
    if (bind(socket.file(), address, length) == 0 && listen(socket.file(), 1024) == 0) {
      return socket;
    }
    error = errno;
  }
  return input_error("cannot listen on port ", port, ": ", describe(error),
                     error == EADDRINUSE ? "; choose another with MASTER_PORT or a flag" : "");
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  getsockname(socket.file(), reinterpret_cast<sockaddr*>(&address), &length);
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Result<Socket> accept_from(const Socket& listener, Deadline deadline) {
  while (wait_for(listener.file(), POLLIN, deadline)) {
    Socket socket(accept4(listener.file(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
      return socket;
    }
  }
  return failure("nobody connected in time");
}

Result<Socket> connect_to(const Endpoint& endpoint, Deadline deadline) {
  for (;;) {
    Result<Socket> socket = try_to_connect(endpoint, deadline);
    if (socket || Clock::now() + kPause > deadline) {
      return socket;
    }
    std::this_thread::sleep_for(kPause);
  }
}

std::string peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  std::array<char, NI_MAXHOST> text{};
  if (getpeername(socket.file(), reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text.data(), text.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  const std::string name = text.data();
  const std::string mapped = "::ffff:";  // an IPv4 address, as IPv6 writes it
  return name.starts_with(mapped) ? name.substr(mapped.size()) : name;
}

Status send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return failure("the connection to ", peer_address(socket), " broke: ", describe(errno));
    } else if (!wait_for(socket.file(), POLLOUT, deadline)) {
      return failure(peer_address(socket), " took nothing in time");
    }
  }
  return {};
}

Status receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket.file(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0) {
      return failure(peer_address(socket), " closed the connection");
    } else if (errno != EAGAIN && errno != EINTR) {
      return failure("the connection to ", peer_address(socket), " broke: ", describe(errno));
    } else if (!wait_for(socket.file(), POLLIN, deadline)) {
      return failure(peer_address(socket), " said nothing in time");
    }
  }
  return {};
}

Status send_text(const Socket& socket, const std::string& text, Deadline deadline) {
  std::string framed;
  for (int shift = 0; shift < 32; shift += 8) {
    framed += static_cast<char>(text.size() >> shift & 0xff);
  }
  framed += text;
  return send_all(socket, std::as_bytes(std::span(framed)), deadline);
}

Result<std::string> receive_text(const Socket& socket, size_t bytes_max, Deadline deadline) {
  std::array<uint8_t, 4> length{};
  if (Status status = receive_all(socket, std::as_writable_bytes(std::span(length)), deadline);
      !status) {
    return status.error();
  }
  const size_t size = size_t{length[0]} | size_t{length[1]} << 8 | size_t{length[2]} << 16 |
                      size_t{length[3]} << 24;
  if (size > bytes_max) {
    return failure(peer_address(socket), " announced ", size, " bytes, at most ", bytes_max,
                   " are allowed");
  }
  std::string text(size, '\0');
  if (Status status = receive_all(socket, std::as_writable_bytes(std::span(text)), deadline);
      !status) {
    return status.error();
  }
  return text;
}

}  // namespace cadre::net
