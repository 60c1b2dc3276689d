// Real processes over shared memory: what each is told when another dies, stops or differs, and
// that nothing is left behind.

#include "comm/shm.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/step_error.h"
#include "testing/test_support.h"

namespace cadre::comm {
namespace {

using std::chrono::milliseconds;
using testing::kCpu;
using testing::Rig;

struct Child {
  pid_t process = -1;
  int output = -1;
};

struct Rank {
  Collective& group;
  MemorySource& memory;
};

std::string new_address() {
  static std::atomic<int> count = 0;
  return concat("cadre-shm-test-", getpid(), "-", ++count);
}

// What a child writes is what its body returns, or the StepError that it throws.
std::vector<Child> fork_ranks(int ranks, const std::string& address, milliseconds timeout,
                              const std::function<std::string(Rank)>& body) {
  std::vector<Child> children;
  for (int rank = 0; rank < ranks; ++rank) {
    std::array<int, 2> ends{};
    CADRE_CHECK(pipe(ends.data()) == 0);
    const pid_t process = fork();
    if (process == 0) {
      std::string said;
      try {
        Result<std::unique_ptr<ShmHost>> host = ShmHost::join(
            {.position = {.rank = rank, .size = ranks}, .address = address, .timeout = timeout});
        said = host.ok() ? body({*(*host)->world(), (*host)->memory()}) : host.error().message;
      } catch (const StepError& error) {
        said = error.what();
      }
      static_cast<void>(!write(ends[1], said.data(), said.size()));
      _exit(0);
    }
    close(ends[1]);
    children.push_back({.process = process, .output = ends[0]});
  }
  return children;
}

std::string output_of(const Child& child) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0; (got = read(child.output, buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  close(child.output);
  waitpid(child.process, nullptr, 0);
  return text;
}

// Adds until somebody fails.
std::string add_for_ever(Rank rank) {
  Rig rig(kCpu);
  const Tensor values = rig.tensor({1000});
  for (;;) {
    rank.group.all_reduce_sum(rig.context, values).wait();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool address_is_gone(const std::string& address) {
  std::ifstream sockets("/proc/net/unix");
  std::stringstream text;
  text << sockets.rdbuf();
  return !contains(text.str(), address);
}

TEST(Shm, NamesTheRankThatWasKilled) {
  for (int victim = 0; victim < 3; ++victim) {
    const std::string address = new_address();
    const std::vector<Child> children = fork_ranks(3, address, milliseconds(20'000), add_for_ever);
    std::this_thread::sleep_for(milliseconds(60 + 7 * victim));  // at a moment of no importance
    kill(children[static_cast<size_t>(victim)].process, SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    for (int rank = 0; rank < 3; ++rank) {
      const std::string said = output_of(children[static_cast<size_t>(rank)]);
      if (rank != victim) {
        EXPECT_TRUE(contains(said, concat("rank ", victim, " has died"))) << said;
        EXPECT_TRUE(contains(said, concat("rank ", victim, " died after all_reduce_sum "))) << said;
      }
    }
    EXPECT_LT(std::chrono::steady_clock::now() - killed, milliseconds(5000));
    EXPECT_TRUE(address_is_gone(address));
  }
}

TEST(Shm, NamesTheRankThatIsSilent) {
  const std::vector<Child> children = fork_ranks(2, new_address(), milliseconds(700), add_for_ever);
  std::this_thread::sleep_for(milliseconds(100));
  kill(children[1].process, SIGSTOP);
  const std::string said = output_of(children[0]);
  kill(children[1].process, SIGKILL);
  output_of(children[1]);
  EXPECT_TRUE(contains(said, "waited 700 ms for rank 1")) << said;
  EXPECT_TRUE(contains(said, "rank 1 last called all_reduce_sum")) << said;
}

TEST(Shm, TellsWhatEachRankCalledWhereTheyDiffer) {
  const std::vector<Child> children =
      fork_ranks(2, new_address(), milliseconds(5000), [](Rank rank) {
        Rig rig(kCpu);
        const Tensor values = rig.tensor({4});
        Pending pending = rank.group.rank() == 0 ? rank.group.all_reduce_sum(rig.context, values)
                                                 : rank.group.broadcast(rig.context, values, 0);
        pending.wait();
        return std::string("no failure");
      });
  for (const Child& child : children) {
    const std::string said = output_of(child);
    EXPECT_TRUE(contains(said,
                         "the ranks differ in call 0 of their group; rank 0 last called "
                         "all_reduce_sum 0 (4 f32); rank 1 last called broadcast 0 (4 f32)"))
        << said;
  }
}

TEST(Shm, RefusesAMessageOfAnotherSize) {
  const std::vector<Child> children =
      fork_ranks(2, new_address(), milliseconds(5000), [](Rank rank) {
        Rig rig(kCpu);
        Pending pending = rank.group.rank() == 0
                              ? rank.group.send(rig.context, rig.tensor({4}), 1)
                              : rank.group.receive(rig.context, rig.tensor({5}), 0);
        pending.wait();
        return std::string("no failure");
      });
  for (const Child& child : children) {
    const std::string said = output_of(child);
    EXPECT_TRUE(contains(said, "send 0 to rank 1 (4 f32) meets receive 0 from rank 0 (5 f32)"))
        << said;
  }
}

TEST(Shm, TellsOfARankThatEndsEarly) {
  const std::vector<Child> children = fork_ranks(
      2, new_address(), milliseconds(5000),
      [](Rank rank) { return rank.group.rank() == 1 ? std::string("done") : add_for_ever(rank); });
  const std::string said = output_of(children[0]);
  EXPECT_TRUE(contains(said, "waits for rank 1, which has ended")) << said;
  EXPECT_EQ(output_of(children[1]), "done");
}

TEST(Shm, NamesTheRankThatNeverCame) {
  const std::string address = new_address();
  Result<std::unique_ptr<ShmHost>> host = ShmHost::join(
      {.position = {.rank = 0, .size = 2}, .address = address, .timeout = milliseconds(50)});
  ASSERT_FALSE(host.ok());
  EXPECT_EQ(host.error().message,
            "shared memory: waited 50 ms for rank 1 of 2 on this host; is that process alive?");
}

// More calls in flight than the ranks have slots, in buffers where they are and in others; all
// waited for backwards by every other rank.
TEST(Shm, KeepsManyCallsInFlight) {
  const std::vector<Child> children =
      fork_ranks(3, new_address(), milliseconds(20'000), [](Rank rank) {
        Rig rig(kCpu);
        Arena shared(rank.memory, rig.trace,
                     {.category = MemoryCategory::kGradients, .capacity_bytes = 1 << 20});
        std::vector<OwnedTensor> tensors;
        std::vector<Pending> pending;
        for (int call = 0; call < 100; ++call) {
          Arena& arena = call % 2 == 0 ? shared : rig.activations;
          tensors.push_back(allocate(arena, DType::kF32, {50}));
          for (float& value : tensors.back().view().flat<float>()) {
            value = static_cast<float>(call + rank.group.rank());
          }
          pending.push_back(rank.group.all_reduce_sum(rig.context, tensors.back()));
        }
        if (rank.group.rank() % 2 == 1) {
          for (size_t i = pending.size(); i > 0; --i) {
            pending[i - 1].wait();
          }
        }
        bool right = true;
        for (int call = 0; call < 100; ++call) {
          pending[static_cast<size_t>(call)].wait();
          for (const float value : tensors[static_cast<size_t>(call)].view().flat<float>()) {
            right = right && value == static_cast<float>(3 * call + 3);
          }
        }
        return std::string(right ? "right" : "wrong");
      });
  for (const Child& child : children) {
    EXPECT_EQ(output_of(child), "right");
  }
}

TEST(Shm, GivesMemoryBackAndZeroesIt) {
  const std::vector<Child> children =
      fork_ranks(1, new_address(), milliseconds(5000), [](Rank rank) {
        std::byte* const first = rank.memory.take(100'000);
        std::byte* const second = rank.memory.take(5000);
        std::fill_n(first, 100'000, std::byte{7});
        rank.memory.give_back(first, 100'000);
        std::byte* const again = rank.memory.take(60'000);
        const bool zero =
            std::all_of(again, again + 60'000, [](std::byte b) { return b == std::byte{}; });
        rank.memory.give_back(second, 5000);
        rank.memory.give_back(again, 60'000);
        std::byte* const all = rank.memory.take(110'000);
        return concat(again == first, zero, all == first);
      });
  EXPECT_EQ(output_of(children[0]), "111");
}

}  // namespace
}  // namespace cadre::comm
