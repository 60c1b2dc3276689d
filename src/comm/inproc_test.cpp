// Against sums taken here in double precision, in every dtype, with the threads disturbed; and what
// each rank is told when one of them does something else.

#include "comm/inproc.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/spawn.h"
#include "testing/test_support.h"

namespace cadre::comm {
namespace {

using std::chrono::milliseconds;
using testing::kCpu;
using testing::Rig;
using testing::spawn;
using testing::values_of;

void yield_at_random(const RandomKey& key, int64_t index) {
  for (uint32_t i = random_word_at(key, index) % 32; i > 0; --i) {
    std::this_thread::yield();
  }
}

// What rank `rank` adds: multiples of 1/4 up to 8 in size, no two alike, exact in every dtype and
// in every order of at most eight ranks but for the rounding of a narrow result.
float addend(int rank, int64_t element) {
  const RandomKey key{.seed = 7, .stream = static_cast<uint64_t>(rank)};
  return std::floor(static_cast<float>(uniform_at(key, element)) * 64.0f - 32.0f) / 4.0f;
}

float rounded(DType dtype, double value) {
  const auto exact = static_cast<float>(value);
  switch (dtype) {
    case DType::kBf16:
      return to_float(from_float<Bf16>(exact));
    case DType::kF16:
      return to_float(from_float<F16>(exact));
    default:
      return exact;
  }
}

void expect_reduced(Rig& rig, Collective& group, DType dtype, int64_t count) {
  const Tensor sums = rig.tensor({count}, dtype);
  const Tensor largest = rig.tensor({count}, dtype);
  const float scale = dtype == DType::kI32 ? 4.0f : 1.0f;
  for (int64_t i = 0; i < count; ++i) {
    testing::store(sums, i, scale * addend(group.rank(), i));
    testing::store(largest, i, scale * addend(group.rank(), i));
  }
  group.all_reduce_sum(rig.context, sums).wait();
  group.all_reduce_max(rig.context, largest).wait();
  for (int64_t i = 0; i < count; ++i) {
    double sum = 0.0;
    float maximum = -std::numeric_limits<float>::infinity();
    for (int rank = 0; rank < group.size(); ++rank) {
      sum += static_cast<double>(scale * addend(rank, i));
      maximum = std::max(maximum, scale * addend(rank, i));
    }
    ASSERT_EQ(testing::load(sums, i), rounded(dtype, sum)) << name_of(dtype) << " at " << i;
    ASSERT_EQ(testing::load(largest, i), maximum) << name_of(dtype) << " at " << i;
  }
}

TEST(Inproc, ReducesEveryDtypeOverAnyNumberOfRanks) {
  for (const int size : {1, 2, 3, 4, 5, 8}) {
    spawn(size, [](Collective& group) {
      Rig rig(kCpu);
      for (const int64_t count : {0, 1, 7, 1025}) {
        for (const DType dtype : {DType::kF32, DType::kBf16, DType::kF16, DType::kI32}) {
          expect_reduced(rig, group, dtype, count);
        }
      }
    });
  }
}

// 1e8f + 1 is 1e8f again, so only one order of these four gives 1.
TEST(Inproc, AddsInRankOrder) {
  constexpr float kOfRank[] = {1e8f, 1.0f, -1e8f, 1.0f};
  spawn(4, [&](Collective& group) {
    Rig rig(kCpu);
    const Tensor values = rig.tensor({1}, {kOfRank[group.rank()]});
    group.all_reduce_sum(rig.context, values).wait();
    EXPECT_EQ(values.flat<float>()[0], 1.0f);
  });
}

// In bf16, 256 + 1 is 256 again; in fp32 the four are 259, which bf16 rounds to 260.
TEST(Inproc, AddsNarrowFloatsInSinglePrecision) {
  constexpr float kOfRank[] = {256.0f, 1.0f, 1.0f, 1.0f};
  spawn(4, [&](Collective& group) {
    Rig rig(kCpu);
    const Tensor values = rig.tensor({1}, DType::kBf16);
    testing::store(values, 0, kOfRank[group.rank()]);
    group.all_reduce_sum(rig.context, values).wait();
    EXPECT_EQ(testing::load(values, 0), 260.0f);
  });
}

TEST(Inproc, KeepsANanThatAnyRankHas) {
  for (int odd = 0; odd < 3; ++odd) {
    spawn(3, [&](Collective& group) {
      Rig rig(kCpu);
      const float nan = std::numeric_limits<float>::quiet_NaN();
      const Tensor values = rig.tensor({1}, {group.rank() == odd ? nan : 1.0f});
      group.all_reduce_max(rig.context, values).wait();
      EXPECT_TRUE(std::isnan(values.flat<float>()[0])) << "of rank " << odd;
    });
  }
}

// Normal numbers, whose sum depends on the order, as four calls in flight that every rank waits for
// in an order of its own.
std::vector<std::vector<float>> sums_under(uint64_t seed, int size) {
  std::vector<std::vector<float>> of_ranks(static_cast<size_t>(size));
  spawn(size, [&](Collective& group) {
    Rig rig(kCpu);
    const RandomKey key{.seed = seed, .stream = static_cast<uint64_t>(group.rank())};
    std::vector<Tensor> tensors;
    std::vector<Pending> pending;
    for (int64_t call = 0; call < 4; ++call) {
      yield_at_random(key, call);
      const auto seed_of_values = static_cast<uint64_t>(int64_t{10} * group.rank() + call);
      tensors.push_back(rig.random({33 + call}, seed_of_values));
      pending.push_back(group.all_reduce_sum(rig.context, tensors.back()));
    }
    for (size_t i = 0; i < pending.size(); ++i) {
      yield_at_random(key, static_cast<int64_t>(10 + i));
      pending[(i + static_cast<size_t>(group.rank())) % pending.size()].wait();
    }
    for (const Tensor& tensor : tensors) {
      std::vector<float>& all = of_ranks[static_cast<size_t>(group.rank())];
      const std::vector<float> values = values_of(tensor);
      all.insert(all.end(), values.begin(), values.end());
    }
  });
  return of_ranks;
}

TEST(Inproc, GivesTheSameBitsOnEveryRankForAnyTiming) {
  const std::vector<float> expected = sums_under(0, 5).front();
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const std::vector<float>& of_rank : sums_under(seed, 5)) {
      ASSERT_EQ(of_rank, expected) << "seed " << seed;
    }
  }
}

// Two groups over the same threads: calls of one do not count in the other.
TEST(Inproc, KeepsGroupsApart) {
  const std::vector<std::unique_ptr<Collective>> second = make_inproc(4);
  spawn(4, [&](Collective& first) {
    Rig rig(kCpu);
    Collective& other = *second[static_cast<size_t>(3 - first.rank())];
    const Tensor a = rig.tensor({1}, {static_cast<float>(first.rank())});
    const Tensor b = rig.tensor({2}, {1, static_cast<float>(10 * first.rank())});
    const bool is_even = first.rank() % 2 == 0;
    Pending one =
        is_even ? first.all_reduce_sum(rig.context, a) : other.all_reduce_sum(rig.context, b);
    Pending two =
        is_even ? other.all_reduce_sum(rig.context, b) : first.all_reduce_sum(rig.context, a);
    one.wait();
    two.wait();
    EXPECT_EQ(a.flat<float>()[0], 6.0f);
    EXPECT_EQ(values_of(b), (std::vector<float>{4, 60}));
  });
}

TEST(Inproc, BooksWhatEachRankSends) {
  spawn(3, [](Collective& group) {
    Rig rig(kCpu);
    const Tensor values = rig.tensor({5}, {1, 2, 3, 4, 5});
    rig.trace.cut();
    group.all_reduce_sum(rig.context, values).wait();
    const std::vector<BookedMessage> expected = {{"all_reduce_sum", 20, 3}};
    EXPECT_EQ(rig.trace.cut().messages, expected);
  });
}

// What spawn throws, or nothing.
std::string failure_of(int ranks, const std::function<void(Collective&)>& body,
                       milliseconds timeout = kInprocTimeout) {
  try {
    spawn(ranks, body, timeout);
  } catch (const StepError& error) {
    return error.what();
  }
  return "";
}

void add_one(Collective& group, int64_t count = 1, DType dtype = DType::kF32) {
  Rig rig(kCpu);
  const Tensor values = rig.tensor({count}, dtype);
  for (int64_t i = 0; i < count; ++i) {
    testing::store(values, i, 1.0f);
  }
  group.all_reduce_sum(rig.context, values).wait();
}

TEST(Inproc, TellsEveryRankWhoIsSilent) {
  std::atomic<int> stopped = 0;
  const std::string failure = failure_of(
      3,
      [&](Collective& group) {
        add_one(group, 7);
        if (group.rank() != 1) {
          try {
            add_one(group, 5);
          } catch (const StepError&) {
            ++stopped;
            stopped.notify_all();
            throw;
          }
        }
        for (int seen = stopped; seen != 2; seen = stopped) {  // alive, and silent
          stopped.wait(seen);
        }
      },
      milliseconds(50));
  EXPECT_NE(failure.find("waited 50 ms for rank 1; rank 0 last called all_reduce_sum 1 (5 f32); "
                         "rank 1 last called all_reduce_sum 0 (7 f32); rank 2 last called "
                         "all_reduce_sum 1 (5 f32)"),
            std::string::npos)
      << failure;
  EXPECT_NE(failure.find("rank 0: all_reduce_sum 1 (5 f32): "), std::string::npos) << failure;
  EXPECT_NE(failure.find("rank 2: all_reduce_sum 1 (5 f32): "), std::string::npos) << failure;
}

TEST(Inproc, TellsAtOnceOfARankThatHasEnded) {
  const std::string failure = failure_of(3, [](Collective& group) {
    add_one(group);
    if (group.rank() != 2) {
      add_one(group);
    }
  });
  EXPECT_NE(failure.find("waits for rank 2, which has ended"), std::string::npos) << failure;
  EXPECT_NE(failure.find("rank 2 has ended after all_reduce_sum 0 (1 f32)"), std::string::npos)
      << failure;
}

TEST(Inproc, TellsWhatEachRankCalledWhereTheyDiffer) {
  const std::string of_counts = failure_of(2, [](Collective& group) {
    add_one(group);
    add_one(group, 4 + group.rank());
  });
  EXPECT_NE(of_counts.find("the ranks differ in call 1 of their group; rank 0 last called "
                           "all_reduce_sum 1 (4 f32); rank 1 last called all_reduce_sum 1 (5 f32)"),
            std::string::npos)
      << of_counts;
  const std::string of_dtypes = failure_of(2, [](Collective& group) {
    add_one(group, 2, group.rank() == 0 ? DType::kF32 : DType::kI32);
  });
  EXPECT_NE(of_dtypes.find("rank 1 last called all_reduce_sum 0 (2 i32)"), std::string::npos)
      << of_dtypes;
  const std::string of_operations = failure_of(2, [](Collective& group) {
    Rig rig(kCpu);
    const Tensor values = rig.tensor({1}, {1});
    Pending pending = group.rank() == 0 ? group.all_reduce_sum(rig.context, values)
                                        : group.all_reduce_max(rig.context, values);
    pending.wait();
  });
  EXPECT_NE(of_operations.find("rank 1 last called all_reduce_max 0 (1 f32)"), std::string::npos)
      << of_operations;
}

// Its buffer may be gone when the others come: nobody may touch it.
TEST(Inproc, StopsWhenARankGivesUpACallInFlight) {
  std::atomic<bool> given_up = false;
  const std::string failure = failure_of(2, [&](Collective& group) {
    if (group.rank() == 1) {
      given_up.wait(false);
      add_one(group);
      return;
    }
    try {
      Rig rig(kCpu);
      const Tensor values = rig.tensor({1}, {1});
      const Pending pending = group.all_reduce_sum(rig.context, values);
      throw StepError("the disk is gone");
    } catch (const StepError&) {
      given_up = true;
      given_up.notify_all();
      throw;
    }
  });
  EXPECT_NE(failure.find("rank 0: the disk is gone"), std::string::npos) << failure;
  EXPECT_NE(failure.find("rank 1: rank 0 gave up waiting for call 0"), std::string::npos)
      << failure;
}

}  // namespace
}  // namespace cadre::comm
