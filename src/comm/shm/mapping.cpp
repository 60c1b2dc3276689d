#include "comm/shm/mapping.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "comm/shm/control.h"

namespace cadre::comm::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kMagic = 0x3165726461632d6d;  // the version of the layout in control.h

struct Hello {
  uint64_t magic = kMagic;
  int32_t rank = 0;
  int32_t size = 0;
};

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
}

bool readable(int file, Clock::time_point deadline) {
  pollfd entry{.fd = file, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, milliseconds_until(deadline)) > 0;
}

// In the abstract namespace: no file is left behind.
sockaddr_un address_of(const std::string& text, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = std::min(text.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, text.data(), size);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

Error system_error(std::string_view what) {
  return failure("shared memory: ", what, ": ", std::strerror(errno));
}

// Another user of this machine can guess an address, and gets nothing.
bool is_ours(int connection) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

constexpr size_t kFilesMax = kShmRanksMax + 1;
union ControlBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(kFilesMax * sizeof(int))];
};

bool send_files(int connection, const std::vector<int>& files) {
  char letter = 'm';
  iovec data{.iov_base = &letter, .iov_len = 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  return sendmsg(connection, &message, MSG_NOSIGNAL) == 1;
}

std::vector<Descriptor> receive_files(int connection) {
  char letter = 0;
  iovec data{.iov_base = &letter, .iov_len = 1};
  ControlBuffer control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  std::vector<Descriptor> files;
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != 1) {
    return files;
  }
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    return files;
  }
  std::vector<int> numbers((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
  std::memcpy(numbers.data(), CMSG_DATA(header), numbers.size() * sizeof(int));
  for (const int number : numbers) {
    files.emplace_back(number);
  }
  return files;
}

Result<Shared> map_all(std::vector<Descriptor> files) {
  Shared shared;
  for (size_t i = 0; i < files.size(); ++i) {
    Result<Mapping> mapping = Mapping::of(std::move(files[i]));
    if (!mapping) {
      return mapping.error();
    }
    i == 0 ? void(shared.control = std::move(*mapping))
           : shared.data.push_back(std::move(*mapping));
  }
  return shared;
}

// One that nobody can fill: as large as the memory of the machine.
int64_t bytes_of_data() {
  return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

Error missing_ranks(const ShmOptions& options, const std::vector<Descriptor>& ranks) {
  std::string missing;
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    if (!ranks[rank].valid()) {
      missing += concat(missing.empty() ? "" : ", ", rank);
    }
  }
  return failure("shared memory: waited ", options.timeout.count(), " ms for rank ", missing,
                 " of ", options.position.size, " on this host; is that process alive?");
}

Result<std::vector<Descriptor>> accept_all(const ShmOptions& options, int listener,
                                           Clock::time_point deadline) {
  std::vector<Descriptor> ranks(static_cast<size_t>(options.position.size));
  for (int joined = 1; joined < options.position.size;) {
    if (!readable(listener, deadline)) {
      return missing_ranks(options, ranks);
    }
    Descriptor connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello;
    if (!connection.valid() || !is_ours(connection.number()) ||
        !readable(connection.number(),
                  std::min(deadline, Clock::now() + std::chrono::seconds(2))) ||
        recv(connection.number(), &hello, sizeof(hello), 0) != sizeof(hello) ||
        hello.magic != kMagic) {
      continue;
    }
    if (hello.size != options.position.size || hello.rank < 1 || hello.rank >= hello.size) {
      return input_error("shared memory: a process says that it is rank ", hello.rank, " of ",
                         hello.size, ", rank 0 expects ", options.position.size, " ranks");
    }
    Descriptor& place = ranks[static_cast<size_t>(hello.rank)];
    if (place.valid()) {
      return input_error("shared memory: two processes say that they are rank ", hello.rank);
    }
    place = std::move(connection);
    ++joined;
  }
  return ranks;
}

Result<Shared> lead(const ShmOptions& options, Clock::time_point deadline) {
  Descriptor listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length = 0;
  const sockaddr_un address = address_of(options.address, length);
  if (!listener.valid() ||
      bind(listener.number(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener.number(), options.position.size) != 0) {
    return system_error(concat("cannot listen as \"", options.address, "\""));
  }
  std::vector<Descriptor> files;
  std::vector<int> numbers;
  for (int file = -1; file < options.position.size; ++file) {
    Result<Descriptor> memory =
        create_memory(file < 0 ? "cadre-control" : concat("cadre-rank-", file),
                      file < 0 ? bytes_of_control(options.position.size) : bytes_of_data());
    if (!memory) {
      return memory.error();
    }
    files.push_back(std::move(*memory));
    numbers.push_back(files.back().number());
  }
  Result<std::vector<Descriptor>> ranks = accept_all(options, listener.number(), deadline);
  if (!ranks) {
    return ranks.error();
  }
  for (size_t rank = 1; rank < ranks->size(); ++rank) {
    if (!send_files((*ranks)[rank].number(), numbers)) {
      return system_error(concat("cannot pass memory to rank ", rank));
    }
  }
  return map_all(std::move(files));
}

Result<Shared> follow(const ShmOptions& options, Clock::time_point deadline) {
  socklen_t length = 0;
  const sockaddr_un address = address_of(options.address, length);
  Descriptor connection;
  for (;;) {
    connection = Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connection.valid() &&
        connect(connection.number(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      break;
    }
    if (Clock::now() > deadline) {
      return failure("shared memory: rank ", options.position.rank, " waited ",
                     options.timeout.count(), " ms for rank 0; is that process alive?");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // rank 0 has not begun to listen
  }
  const Hello hello{.rank = options.position.rank, .size = options.position.size};
  if (send(connection.number(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
      !readable(connection.number(), deadline + std::chrono::seconds(1))) {
    return failure("shared memory: rank ", options.position.rank, " waited ",
                   options.timeout.count(), " ms for the other ranks of this host");
  }
  std::vector<Descriptor> files = receive_files(connection.number());
  if (static_cast<int>(files.size()) != options.position.size + 1) {
    return failure("shared memory: rank 0 gave up; its log says why");
  }
  return map_all(std::move(files));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Descriptor old(std::exchange(number_, other.release()));
  }
  return *this;
}

Descriptor::~Descriptor() {
  if (valid()) {
    close(number_);
  }
}

int Descriptor::release() {
  return std::exchange(number_, -1);
}

Result<Mapping> Mapping::of(Descriptor file) {
  struct stat status {};
  if (fstat(file.number(), &status) != 0) {
    return system_error("cannot look at memory");
  }
  void* const data = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE, file.number(), 0);
  if (data == MAP_FAILED) {
    return system_error(concat("cannot map ", status.st_size, " bytes"));
  }
  Mapping mapping;
  mapping.file_ = std::move(file);
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.bytes_ = status.st_size;
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept {
  *this = std::move(other);
}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) {
    munmap(data_, static_cast<size_t>(bytes_));
  }
}

Result<Descriptor> create_memory(const std::string& name, int64_t bytes) {
  Descriptor memory(memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!memory.valid() || ftruncate(memory.number(), bytes) != 0) {
    return system_error(concat("cannot create ", bytes, " bytes"));
  }
  return memory;
}

Result<Shared> share(const ShmOptions& options) {
  CADRE_CHECK(options.position.size <= kShmRanksMax, options.position.size, " ranks");
  const Clock::time_point deadline = Clock::now() + options.timeout;
  return options.position.rank == 0 ? lead(options, deadline) : follow(options, deadline);
}

}  // namespace cadre::comm::shm
