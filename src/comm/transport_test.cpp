// What every transport must do, with ranks as threads: each operation against what it says, with
// uneven and empty parts, and its bytes against the theory.

#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/collective.h"
#include "comm/shm.h"
#include "testing/spawn.h"
#include "testing/test_support.h"

namespace cadre::comm {
namespace {

using testing::kCpu;
using testing::Rig;
using testing::values_of;

using Body = std::function<void(Collective&)>;

struct Transport {
  std::string name;
  std::function<void(int ranks, const Body& body)> spawn;
};

// Runs the body once per rank, on threads; throws what a rank has thrown.
void run_ranks(int ranks, const std::function<void(int rank)>& body) {
  std::vector<std::string> failures(static_cast<size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&body, rank, &failure = failures[static_cast<size_t>(rank)]] {
        try {
          body(rank);
        } catch (const StepError& error) {
          failure = error.what();
        }
      });
    }
  }
  for (const std::string& failure : failures) {
    if (!failure.empty()) {
      throw StepError(failure);
    }
  }
}

void spawn_shm(int ranks, const Body& body) {
  static std::atomic<int> runs = 0;
  const std::string address = concat("cadre-test-", getpid(), "-", ++runs);
  run_ranks(ranks, [&](int rank) {
    Result<std::unique_ptr<ShmHost>> host =
        ShmHost::join({.position = {.rank = rank, .size = ranks}, .address = address});
    CADRE_CHECK(host.ok(), host.error().message);
    body(*(*host)->world());
  });
}

std::vector<Transport> transports() {
  return {{"inproc", [](int ranks, const Body& body) { testing::spawn(ranks, body); }},
          {"shm", spawn_shm}};
}

class TransportTest : public ::testing::TestWithParam<Transport> {
 protected:
  static void spawn(int ranks, const Body& body) { GetParam().spawn(ranks, body); }
};

// Of different sizes, one of them nothing.
std::vector<int64_t> uneven_counts(int ranks) {
  std::vector<int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) {
    counts.push_back(rank == 1 ? 0 : 3 + 40 * rank);
  }
  return counts;
}

int64_t total(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

float value_of(int rank, int64_t element) {
  return static_cast<float>((int64_t{1000} * (rank + 1) + element) % 509);
}

Tensor filled(Rig& rig, int rank, int64_t count, DType dtype = DType::kF32) {
  const Tensor tensor = rig.tensor({count}, dtype);
  for (int64_t i = 0; i < count; ++i) {
    testing::store(tensor, i, value_of(rank, i));
  }
  return tensor;
}

float sum_at(int ranks, int64_t element) {
  float sum = 0.0f;
  for (int rank = 0; rank < ranks; ++rank) {
    sum += value_of(rank, element);
  }
  return sum;
}

TEST_P(TransportTest, ReducesTheWhole) {
  for (const int ranks : {1, 2, 3, 4}) {
    spawn(ranks, [](Collective& group) {
      Rig rig(kCpu);
      for (const int64_t count : {0, 1, 17, 5000}) {
        const Tensor sums = filled(rig, group.rank(), count);
        const Tensor largest = filled(rig, group.rank(), count, DType::kI32);
        Pending one = group.all_reduce_sum(rig.context, sums);
        Pending two = group.all_reduce_max(rig.context, largest);
        two.wait();
        one.wait();
        for (int64_t i = 0; i < count; ++i) {
          float expected = 0.0f;
          for (int rank = 0; rank < group.size(); ++rank) {
            expected = std::max(expected, value_of(rank, i));
          }
          ASSERT_EQ(testing::load(sums, i), sum_at(group.size(), i)) << i;
          ASSERT_EQ(testing::load(largest, i), expected) << i;
        }
      }
    });
  }
}

// 1e8f + 1 is 1e8f again, so only one order of these four gives 1.
TEST_P(TransportTest, AddsInRankOrder) {
  constexpr float kOfRank[] = {1e8f, 1.0f, -1e8f, 1.0f};
  spawn(4, [&](Collective& group) {
    Rig rig(kCpu);
    const Tensor values = rig.tensor({130});
    for (float& value : values.flat<float>()) {
      value = kOfRank[group.rank()];
    }
    group.all_reduce_sum(rig.context, values).wait();
    EXPECT_EQ(values_of(values), std::vector<float>(130, 1.0f));
  });
}

TEST_P(TransportTest, ReducesUnevenPartsToTheirOwners) {
  for (const int ranks : {1, 2, 3, 4}) {
    spawn(ranks, [](Collective& group) {
      Rig rig(kCpu);
      const std::vector<int64_t> counts = uneven_counts(group.size());
      for (const DType dtype : {DType::kF32, DType::kI32}) {
        const Tensor values = filled(rig, group.rank(), total(counts), dtype);
        group.reduce_scatter_sum(rig.context, values, counts).wait();
        const Part own = part_at(counts, group.rank());
        for (int64_t i = own.first; i < own.first + own.count; ++i) {
          ASSERT_EQ(testing::load(values, i), sum_at(group.size(), i)) << i;
        }
      }
    });
  }
}

TEST_P(TransportTest, GathersUnevenParts) {
  for (const int ranks : {1, 2, 3, 4}) {
    spawn(ranks, [](Collective& group) {
      Rig rig(kCpu);
      const std::vector<int64_t> counts = uneven_counts(group.size());
      const Tensor values = filled(rig, group.rank(), total(counts), DType::kBf16);
      group.all_gather(rig.context, values, counts).wait();
      for (int owner = 0; owner < group.size(); ++owner) {
        const Part part = part_at(counts, owner);
        for (int64_t i = part.first; i < part.first + part.count; ++i) {
          const float expected = to_float(from_float<Bf16>(value_of(owner, i)));
          ASSERT_EQ(testing::load(values, i), expected) << i;
        }
      }
    });
  }
}

TEST_P(TransportTest, GivesAllWhatTheRootHas) {
  spawn(3, [](Collective& group) {
    Rig rig(kCpu);
    for (int root = 0; root < 3; ++root) {
      const Tensor values = filled(rig, group.rank(), 77);
      group.broadcast(rig.context, values, root).wait();
      EXPECT_EQ(values_of(values), values_of(filled(rig, root, 77)));
    }
  });
}

// Rank s sends (s + 2 d) % 3 * 5 elements to rank d, each of them 100 s + d.
int64_t count_between(int from, int to) {
  return from == to ? 2 : (from + 2 * to) % 3 * 5;
}

TEST_P(TransportTest, ExchangesUnevenParts) {
  for (const int ranks : {1, 2, 4}) {
    spawn(ranks, [](Collective& group) {
      Rig rig(kCpu);
      std::vector<int64_t> sent_counts;
      std::vector<int64_t> received_counts;
      std::vector<float> outgoing;
      std::vector<float> expected;
      for (int other = 0; other < group.size(); ++other) {
        sent_counts.push_back(count_between(group.rank(), other));
        received_counts.push_back(count_between(other, group.rank()));
        outgoing.insert(outgoing.end(), static_cast<size_t>(sent_counts.back()),
                        static_cast<float>(100 * group.rank() + other));
        expected.insert(expected.end(), static_cast<size_t>(received_counts.back()),
                        static_cast<float>(100 * other + group.rank()));
      }
      const Tensor sent = rig.tensor({total(sent_counts)}, outgoing);
      const Tensor received = rig.tensor({total(received_counts)});
      group
          .all_to_all(rig.context, received, sent,
                      {.sent = sent_counts, .received = received_counts})
          .wait();
      EXPECT_EQ(values_of(received), expected);
    });
  }
}

// Every rank sends to its right three times, and receives from its left before it waits.
TEST_P(TransportTest, DeliversMessagesInOrder) {
  for (const int ranks : {2, 3}) {
    spawn(ranks, [](Collective& group) {
      Rig rig(kCpu);
      const int right = (group.rank() + 1) % group.size();
      const int left = (group.rank() + group.size() - 1) % group.size();
      std::vector<Pending> pending;
      std::vector<Tensor> received;
      for (int64_t message = 0; message < 3; ++message) {
        const int64_t count = 10 * message + group.rank();
        pending.push_back(group.send(
            rig.context, filled(rig, group.rank() + static_cast<int>(message), count), right));
        received.push_back(rig.tensor({10 * message + left}));
        pending.push_back(group.receive(rig.context, received.back(), left));
      }
      for (size_t i = pending.size(); i > 0; --i) {
        pending[i - 1].wait();
      }
      for (int message = 0; message < 3; ++message) {
        EXPECT_EQ(values_of(received[static_cast<size_t>(message)]),
                  values_of(filled(rig, left + message, 10 * message + left)));
      }
    });
  }
}

TEST_P(TransportTest, CountsTheBytesOfTheTheory) {
  spawn(3, [](Collective& group) {
    Rig rig(kCpu);
    const std::unique_ptr<Collective> theory =
        make_recorded({.rank = group.rank(), .size = group.size()});
    Rig meta(testing::kMeta);
    const auto run = [&](Rig& on, Collective& where) {
      const std::vector<int64_t> counts = {7, 0, 40};
      where.all_reduce_sum(on.context, on.tensor({1001})).wait();
      where.reduce_scatter_sum(on.context, on.tensor({47}), counts).wait();
      where.all_gather(on.context, on.tensor({47}), counts).wait();
      where.broadcast(on.context, on.tensor({9}, DType::kBf16), 2).wait();
      const std::vector<int64_t> even = {4, 4, 4};
      where
          .all_to_all(on.context, on.tensor({12}), on.tensor({12}),
                      {.sent = even, .received = even})
          .wait();
      Pending sent = where.send(on.context, on.tensor({5}), (where.rank() + 1) % 3);
      where.receive(on.context, on.tensor({5}), (where.rank() + 2) % 3).wait();
      sent.wait();
      where.barrier(on.context);
    };
    run(rig, group);
    run(meta, *theory);
    EXPECT_EQ(group.bytes_sent(), theory->bytes_sent());
    EXPECT_EQ(rig.trace.cut().messages, meta.trace.cut().messages);
  });
}

// 2 x 2: rows {0, 1} and {2, 3}; columns {0, 2} and {1, 3}, entered in falling order.
TEST_P(TransportTest, SplitsIntoGroupsOfTheirOwn) {
  spawn(4, [](Collective& world) {
    Rig rig(kCpu);
    const std::vector<Place> by_row = {{5, 0}, {5, 1}, {9, 0}, {9, 1}};
    const std::vector<Place> by_column = {{0, 8}, {1, 8}, {0, 3}, {1, 3}};
    const std::unique_ptr<Collective> row = world.split("row", by_row);
    const std::unique_ptr<Collective> column = world.split("column", by_column);
    const std::unique_ptr<Collective> alone =
        row->split("alone", std::vector<Place>{{0, 0}, {1, 0}});
    EXPECT_EQ(row->size(), 2);
    EXPECT_EQ(row->rank(), world.rank() % 2);
    EXPECT_EQ(column->rank(), world.rank() < 2 ? 1 : 0);
    EXPECT_EQ(column->name(), "column");
    EXPECT_EQ(alone->size(), 1);
    const auto own = static_cast<float>(1 << world.rank());
    const Tensor a = rig.tensor({1}, {own});
    const Tensor b = rig.tensor({1}, {own});
    const Tensor c = rig.tensor({1}, {own});
    // In flight at once, and waited for in another order on every other rank.
    Pending one = row->all_reduce_sum(rig.context, a);
    Pending two = column->all_reduce_sum(rig.context, b);
    Pending three = world.all_reduce_sum(rig.context, c);
    alone->barrier(rig.context);
    if (world.rank() % 2 == 0) {
      one.wait();
    }
    three.wait();
    two.wait();
    one.wait();
    EXPECT_EQ(values_of(a)[0], world.rank() < 2 ? 3.0f : 12.0f);
    EXPECT_EQ(values_of(b)[0], world.rank() % 2 == 0 ? 5.0f : 10.0f);
    EXPECT_EQ(values_of(c)[0], 15.0f);
  });
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest, ::testing::ValuesIn(transports()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace cadre::comm
