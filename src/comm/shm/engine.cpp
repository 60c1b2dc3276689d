#include "comm/shm/engine.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <sstream>
#include <thread>

#include "base/check.h"
#include "base/step_error.h"
#include "comm/shm/share.h"

namespace cadre::comm::shm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSpins = 4000;  // some tens of microseconds: longer than a message takes, no more
constexpr int kYields = 8;    // where ranks share cores
constexpr std::chrono::milliseconds kLook{20};  // how often a sleeper sees whether others live

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Unlike a process id, different in every container.
uint64_t this_process() {
  struct stat status {};
  static_cast<void>(stat("/proc/self/ns/pid", &status));
  return static_cast<uint64_t>(status.st_ino) << 32 | static_cast<uint64_t>(getpid());
}

// FNV-1a
uint64_t hash_of(const std::vector<int64_t>& numbers) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const int64_t number : numbers) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0x100000001b3;
  }
  return hash;
}

Note note_of(const Request& request) {
  Note note{.operation = static_cast<int32_t>(request.operation),
            .dtype = static_cast<int32_t>(request.dtype()),
            .peer = request.peer,
            .sequence = request.sequence,
            .elements = request.elements(),
            .counts_hash = request.operation == Operation::kAllToAll ? 0 : hash_of(request.counts)};
  request.group.copy(note.group, sizeof(note.group) - 1);
  return note;
}

// What ranks must have alike; the elements of an all_to_all meet when they are taken.
bool same(const Note& a, const Note& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.peer == b.peer &&
         a.counts_hash == b.counts_hash &&
         (a.elements == b.elements || a.operation == static_cast<int32_t>(Operation::kAllToAll));
}

std::string to_text(const Note& note) {
  std::string group(note.group, strnlen(note.group, sizeof(note.group)));
  std::ostringstream out;
  const auto operation = static_cast<Operation>(note.operation);
  out << name_of(operation) << " " << note.sequence << (group.empty() ? "" : " of ") << group;
  if (operation == Operation::kSend || operation == Operation::kReceive) {
    out << (operation == Operation::kSend ? " to rank " : " from rank ") << note.peer;
  }
  if (operation != Operation::kBarrier) {
    out << " (" << note.elements << " " << cadre::name_of(static_cast<DType>(note.dtype)) << ")";
  }
  return out.str();
}

uint64_t ticket(const Request& request) {
  return static_cast<uint64_t>(request.sequence) + 1;
}

}  // namespace

Engine::Engine(const ShmOptions& options, Shared shared)
    : options_(options),
      shared_(std::move(shared)),
      memory_(shared_.data[static_cast<size_t>(options.position.rank)]),
      spins_(options.position.size <= cores()) {
  // The kernel gives up the lock when the process ends, however it ends: so others see that it did.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = options_.position.rank;
  lock.l_len = 1;
  CADRE_CHECK(fcntl(shared_.control.file(), F_SETLK, &lock) == 0, std::strerror(errno));
  RankState& own = state(options_.position.rank);
  own.process = this_process();
  own.phase.store(static_cast<uint32_t>(Phase::kJoined));
}

Engine::~Engine() {
  state(options_.position.rank).phase.store(static_cast<uint32_t>(Phase::kLeft));
  for (int rank = 0; rank < options_.position.size; ++rank) {
    ring(rank);
  }
}

int64_t Engine::take_groups(int64_t count) {
  const auto first = static_cast<int64_t>(header().groups.fetch_add(static_cast<uint64_t>(count)));
  CADRE_CHECK(first + count < kGroupsMax, first + count, " groups; at most ", kGroupsMax);
  return first + 1;  // 0 is the world
}

Slot& Engine::slot(const Group& group, int rank, int64_t sequence) const {
  auto* const slots = reinterpret_cast<Slot*>(shared_.control.data() + sizeof(Header)) +
                      group.number * slots_of_group(options_.position.size);
  return slots[rank * kSlots + sequence % kSlots];
}

Slot& Engine::message_slot(const Group& group, int from, int to, int64_t sequence) const {
  auto* const slots = &slot(group, 0, 0) + group.size() * kSlots;
  return slots[(from * group.size() + to) * kMessageSlots + sequence % kMessageSlots];
}

std::shared_ptr<Flight> Engine::start(const Group& group, ThreadPool* threads,
                                      const Request& request, int64_t value) {
  throw_if_failed();
  auto flight = std::make_shared<Flight>();
  flight->group = &group;
  flight->threads = threads;
  flight->request = request;
  flight->value = value;
  RankState& own = state(options_.position.rank);
  own.last_call = note_of(request);
  own.calls.fetch_add(1);
  make_room(*flight);
  post(*flight);
  flights_.push_back(flight);
  move_all();
  return flight;
}

// The slot of a call is used again kSlots calls later: that older one must be over.
void Engine::make_room(const Flight& flight) {
  const Request& request = flight.request;
  const int64_t slots = request.is_message() ? kMessageSlots : kSlots;
  for (;;) {
    const auto older = std::ranges::find_if(flights_, [&](const std::shared_ptr<Flight>& other) {
      const bool same_row = request.is_message() ? other->request.operation == request.operation &&
                                                       other->request.peer == request.peer
                                                 : !other->request.is_message();
      return other->group == flight.group && same_row &&
             other->request.sequence <= request.sequence - slots;
    });
    if (older == flights_.end()) {
      return;
    }
    const std::shared_ptr<Flight> held = *older;
    wait(*held);
  }
}

void Engine::post(Flight& flight) {
  const Group& group = *flight.group;
  const Request& request = flight.request;
  if (request.operation == Operation::kReceive) {
    flight.slot = &message_slot(group, request.peer, group.rank, request.sequence);
    return;
  }
  Slot& own = request.operation == Operation::kSend
                  ? message_slot(group, group.rank, request.peer, request.sequence)
                  : slot(group, group.rank, request.sequence);
  flight.slot = &own;
  const bool only_receives =
      request.operation == Operation::kBroadcast && request.peer != group.rank;
  if (request.elements() > 0 && !only_receives) {
    const int64_t width = bytes_of(request.dtype());
    const ConstTensor buffer = request.brought();
    // Of an all_gather nobody reads more than this rank's part.
    const Part needed = request.operation == Operation::kAllGather
                            ? part_at(request.counts, group.rank)
                            : Part{.first = 0, .count = request.elements()};
    if (memory_.holds(buffer.data)) {
      own.offset = memory_.offset_of(buffer.data);
    } else if (needed.count > 0) {
      flight.stage = memory_.take_stage(needed.count * width);
      std::memcpy(flight.stage, buffer.data + needed.first * width,
                  static_cast<size_t>(needed.count * width));
      own.offset = memory_.offset_of(flight.stage) - needed.first * width;
    }
  }
  if (request.operation == Operation::kAllToAll) {
    const size_t bytes = request.sent_counts.size() * sizeof(int64_t);
    flight.counts = memory_.take_stage(static_cast<int64_t>(bytes));
    std::memcpy(flight.counts, request.sent_counts.data(), bytes);
    own.counts_offset = memory_.offset_of(flight.counts);
  }
  own.note = note_of(request);
  own.value = flight.value;
  own.bytes_taken.store(0, std::memory_order_relaxed);
  own.posted.store(ticket(request), std::memory_order_release);
  if (request.operation == Operation::kSend) {
    ring(group.members[static_cast<size_t>(request.peer)]);
  } else {
    ring_others(group);
  }
}

bool Engine::try_to_move(Flight& flight) {
  return flight.request.is_message() ? move_message(flight) : move_collective(flight);
}

bool Engine::move_message(Flight& flight) {
  const Request& request = flight.request;
  const Group& group = *flight.group;
  Slot& slot = *flight.slot;
  if (request.operation == Operation::kSend) {
    return slot.done.load(std::memory_order_acquire) >= ticket(request);
  }
  if (slot.posted.load(std::memory_order_acquire) < ticket(request)) {
    return false;
  }
  const int sender = group.members[static_cast<size_t>(request.peer)];
  if (slot.note.dtype != static_cast<int32_t>(request.dtype()) ||
      slot.note.elements != request.elements()) {
    fail(concat("the ranks differ in message ", request.sequence, " from rank ", sender,
                " to rank ", options_.position.rank, ": ", to_text(slot.note), " meets ", request));
  }
  const int64_t bytes = request.values.bytes();
  if (bytes > 0) {
    const std::byte* const source = shared_.data[static_cast<size_t>(sender)].data() + slot.offset;
    std::memcpy(request.values.data, source, static_cast<size_t>(bytes));
  }
  slot.bytes_taken.store(static_cast<uint64_t>(bytes), std::memory_order_relaxed);
  slot.done.store(ticket(request), std::memory_order_release);
  ring(sender);
  return true;
}

bool Engine::move_collective(Flight& flight) {
  const Request& request = flight.request;
  const Group& group = *flight.group;
  const auto size = static_cast<size_t>(group.size());
  if (!flight.share_done) {
    for (int rank = 0; rank < group.size(); ++rank) {
      if (slot(group, rank, request.sequence).posted.load(std::memory_order_acquire) <
          ticket(request)) {
        return false;
      }
    }
    std::vector<std::byte*> buffers(size);
    std::vector<const int64_t*> counts(size);
    for (size_t rank = 0; rank < size; ++rank) {
      const Slot& other = slot(group, static_cast<int>(rank), request.sequence);
      if (!same(other.note, flight.slot->note)) {
        fail(concat("the ranks differ in call ", request.sequence, " of their group"));
      }
      const Mapping& data = shared_.data[static_cast<size_t>(group.members[rank])];
      buffers[rank] = data.data() + other.offset;
      counts[rank] = reinterpret_cast<const int64_t*>(data.data() + other.counts_offset);
    }
    const int64_t written = do_share({.request = request,
                                      .position = {.rank = group.rank, .size = group.size()},
                                      .buffers = buffers,
                                      .counts = counts,
                                      .threads = flight.threads,
                                      .took = [&](int from, int64_t bytes) {
                                        slot(group, from, request.sequence)
                                            .bytes_taken.fetch_add(static_cast<uint64_t>(bytes),
                                                                   std::memory_order_relaxed);
                                      }});
    if (written < 0) {
      fail(concat("the ranks differ in call ", request.sequence,
                  " of their group: what is sent is not what is expected"));
    }
    flight.bytes_sent = written;
    flight.value = slot(group, 0, request.sequence).value;
    flight.share_done = true;
    flight.slot->done.store(ticket(request), std::memory_order_release);
    ring_others(group);
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    if (slot(group, rank, request.sequence).done.load(std::memory_order_acquire) <
        ticket(request)) {
      return false;
    }
  }
  return true;
}

void Engine::finish(Flight& flight) {
  const Request& request = flight.request;
  if (request.operation != Operation::kReceive) {
    flight.bytes_sent +=
        static_cast<int64_t>(flight.slot->bytes_taken.load(std::memory_order_relaxed));
  }
  if (flight.stage != nullptr) {
    if (request.is_all_reduce()) {
      std::memcpy(request.values.data, flight.stage, static_cast<size_t>(request.values.bytes()));
    }
    memory_.return_stage(flight.stage);
  }
  if (flight.counts != nullptr) {
    memory_.return_stage(flight.counts);
  }
  flight.over = true;
}

// A call that fails throws, and leaves the list whole.
void Engine::move_all() {
  for (size_t i = 0; i < flights_.size();) {
    Flight& flight = *flights_[i];
    if (try_to_move(flight)) {
      finish(flight);
      flights_.erase(flights_.begin() + static_cast<ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
}

void Engine::wait(Flight& flight) {
  Clock::time_point deadline{};
  int rounds = 0;
  for (;;) {
    const uint32_t bell = state(options_.position.rank).bell.load(std::memory_order_acquire);
    if (!flight.over) {
      throw_if_failed();
      move_all();
    }
    if (flight.over) {
      return;
    }
    ++rounds;
    if (spins_ && rounds < kSpins) {
      pause_briefly();
    } else if (!spins_ && rounds < kYields) {
      sched_yield();
    } else {
      if (deadline == Clock::time_point{}) {
        deadline = Clock::now() + options_.timeout;
      }
      sleep(bell);
      look_around(flight, deadline);
    }
  }
}

void Engine::sleep(uint32_t bell) {
  RankState& own = state(options_.position.rank);
  own.parked.store(1);
  if (own.bell.load() == bell) {  // else somebody rang before we could be seen to sleep
    const timespec most{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kLook).count()};
    syscall(SYS_futex, &own.bell, FUTEX_WAIT, bell, &most, nullptr, 0);
  }
  own.parked.store(0);
}

void Engine::ring(int host_rank) {
  RankState& other = state(host_rank);
  other.bell.fetch_add(1);
  if (other.parked.load() != 0) {
    syscall(SYS_futex, &other.bell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

void Engine::ring_others(const Group& group) {
  for (const int member : group.members) {
    if (member != options_.position.rank) {
      ring(member);
    }
  }
}

// Of a rank that has died nobody rings.
void Engine::look_around(const Flight& flight, Clock::time_point deadline) {
  throw_if_failed();
  for (int rank = 0; rank < options_.position.size; ++rank) {
    if (!is_alive(rank)) {
      fail(concat(flight.request, ": rank ", rank, " has died"));
    }
  }
  const int rank = missing(flight);
  if (rank < 0) {
    return;
  }
  if (state(rank).phase.load() == static_cast<uint32_t>(Phase::kLeft)) {
    fail(concat(flight.request, ": rank ", options_.position.rank, " waits for rank ", rank,
                ", which has ended"));
  }
  if (Clock::now() > deadline) {
    fail(concat(flight.request, ": rank ", options_.position.rank, " waited ",
                options_.timeout.count(), " ms for rank ", rank));
  }
}

// The first rank of the host that the flight waits for, or -1.
int Engine::missing(const Flight& flight) const {
  const Request& request = flight.request;
  const Group& group = *flight.group;
  if (request.is_message()) {
    const bool there = request.operation == Operation::kSend
                           ? flight.slot->done.load() >= ticket(request)
                           : flight.slot->posted.load() >= ticket(request);
    return there ? -1 : group.members[static_cast<size_t>(request.peer)];
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    const Slot& other = slot(group, rank, request.sequence);
    const Count& awaited = flight.share_done ? other.done : other.posted;
    if (awaited.load() < ticket(request)) {
      return group.members[static_cast<size_t>(rank)];
    }
  }
  return -1;
}

bool Engine::is_alive(int host_rank) const {
  const RankState& other = state(host_rank);
  if (other.phase.load() != static_cast<uint32_t>(Phase::kJoined) ||
      other.process == this_process()) {
    return true;
  }
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = host_rank;
  lock.l_len = 1;
  return fcntl(shared_.control.file(), F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK ||
         other.phase.load() != static_cast<uint32_t>(Phase::kJoined);
}

void Engine::give_up(Flight& flight) {
  std::erase_if(flights_, [&](const auto& other) { return other.get() == &flight; });
  if (header().failure.state.load() == 0 && !flight.over) {
    set_failure(concat("rank ", options_.position.rank, " gave up waiting for ", flight.request));
  }
}

std::string Engine::last_calls() const {
  std::string text;
  for (int rank = 0; rank < options_.position.size; ++rank) {
    const RankState& other = state(rank);
    const bool left = other.phase.load() == static_cast<uint32_t>(Phase::kLeft);
    const std::string_view verb = !is_alive(rank) ? " died after "
                                  : left          ? " has ended after "
                                                  : " last called ";
    text += concat("; rank ", rank, verb,
                   other.calls.load() == 0 ? "nothing" : to_text(other.last_call));
  }
  return text;
}

void Engine::set_failure(const std::string& reason) {
  Failure& failure = header().failure;
  uint32_t none = 0;
  if (failure.state.compare_exchange_strong(none, 1)) {
    const std::string text = reason + last_calls();
    text.copy(failure.text, sizeof(failure.text) - 1);
    failure.state.store(2);
    for (int rank = 0; rank < options_.position.size; ++rank) {
      ring(rank);
    }
  }
}

void Engine::fail(const std::string& reason) {
  set_failure(reason);
  throw_if_failed();
  throw StepError(reason);
}

void Engine::throw_if_failed() {
  Failure& failure = header().failure;
  if (failure.state.load() == 0) {
    return;
  }
  // Whoever writes it may die over it.
  for (int round = 0; failure.state.load() != 2 && round < 100; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw StepError(failure.state.load() == 2 ? std::string(failure.text)
                                            : "a rank died while it told why it failed");
}

}  // namespace cadre::comm::shm
