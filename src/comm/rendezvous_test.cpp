#include "comm/rendezvous.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

namespace cadre::comm {
namespace {

using std::chrono::milliseconds;

int free_port() {
  const Result<net::Socket> socket = net::listen_on(0);
  return net::port_of(*socket);
}

// Each with its own changes to what all have.
std::vector<Result<Meeting>> meet(int ranks, const std::function<void(RendezvousOptions&)>& change,
                                  int without = -1) {
  std::vector<Result<Meeting>> results(static_cast<size_t>(ranks), Result<Meeting>(Error{}));
  const int port = free_port();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank != without) {
      threads.emplace_back([&, rank] {
        RendezvousOptions options{.position = {.rank = rank, .size = ranks},
                                  .host = "127.0.0.1",
                                  .port = port,
                                  .token = "secret",
                                  .alike = "version: 1\nsteps: 10\n",
                                  .data_port = 100 + rank,
                                  .timeout = milliseconds(10'000)};
        change(options);
        results[static_cast<size_t>(rank)] = rendezvous(options);
      });
    }
  }
  threads.clear();
  return results;
}

TEST(Rendezvous, TellsEveryRankOfAllOthers) {
  const std::vector<Result<Meeting>> results = meet(4, [](RendezvousOptions&) {});
  for (const Result<Meeting>& result : results) {
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->session, results[0]->session);
    ASSERT_EQ(result->ranks.size(), 4u);
    for (int rank = 0; rank < 4; ++rank) {
      const Peer& peer = result->ranks[static_cast<size_t>(rank)];
      EXPECT_EQ(peer.data_port, 100 + rank);
      EXPECT_EQ(peer.address, "127.0.0.1");
      EXPECT_EQ(peer.machine, results[0]->ranks[0].machine);
    }
  }
  EXPECT_EQ(results[0]->session.size(), 32u);
}

void expect_all(const std::vector<Result<Meeting>>& results, const std::string& message,
                int without = -1) {
  for (int rank = 0; rank < static_cast<int>(results.size()); ++rank) {
    if (rank != without) {
      const Result<Meeting>& result = results[static_cast<size_t>(rank)];
      ASSERT_FALSE(result.ok());
      EXPECT_TRUE(result.error().message.find(message) != std::string::npos)
          << "rank " << rank << ": " << result.error().message;
    }
  }
}

TEST(Rendezvous, TellsEveryRankWhoIsMissing) {
  const std::vector<Result<Meeting>> results = meet(
      3, [](RendezvousOptions& options) { options.timeout = milliseconds(300); }, 1);
  expect_all(results, "rank 0 waited 300 ms for rank 1; are those processes alive", 1);
}

TEST(Rendezvous, ShowsTheFirstLineInWhichARankDiffers) {
  const std::vector<Result<Meeting>> results = meet(2, [](RendezvousOptions& options) {
    if (options.position.rank == 1) {
      options.alike = "version: 1\nsteps: 20\n";
    }
  });
  expect_all(results,
             "rank 1 was started differently: it has \"steps: 20\", rank 0 has \"steps: 10\"");
  EXPECT_EQ(results[1].error().kind, ErrorKind::kInput);
}

TEST(Rendezvous, RefusesTwoRanksWithOneNumber) {
  const std::vector<Result<Meeting>> results = meet(3, [](RendezvousOptions& options) {
    options.position.rank = std::min(options.position.rank, 1);
  });
  expect_all(results, "two processes say that they are rank 1: one at 127.0.0.1");
}

TEST(Rendezvous, RefusesARunOfAnotherSize) {
  const std::vector<Result<Meeting>> results =
      meet(2, [](RendezvousOptions& options) { options.position.size += options.position.rank; });
  expect_all(results, "rank 1 at 127.0.0.1 was started as one of 3 ranks, rank 0 as one of 2");
}

// A stranger without the token, one that says nothing and one that talks nonsense: the ranks go on.
TEST(Rendezvous, DropsWhoCannotProveTheToken) {
  std::mutex mutex;
  std::vector<std::string> dropped;
  std::vector<net::Socket> silent;
  const std::vector<Result<Meeting>> results = meet(2, [&](RendezvousOptions& options) {
    if (options.position.rank == 0) {
      options.log = [&](const std::string& line) {
        const std::lock_guard lock(mutex);
        dropped.push_back(line);
      };
      return;
    }
    RendezvousOptions stranger = options;
    stranger.token = "guess";
    const Result<Meeting> refused = rendezvous(stranger);
    EXPECT_FALSE(refused.ok());
    const net::Deadline deadline = net::Clock::now() + std::chrono::seconds(5);
    Result<net::Socket> nonsense = net::connect_to({options.host, options.port}, deadline);
    EXPECT_TRUE(net::send_text(*nonsense, "GET / HTTP/1.1", deadline).ok());
    EXPECT_TRUE(net::send_text(*nonsense, "\n", deadline).ok());
    silent.push_back(std::move(*nonsense));
  });
  for (const Result<Meeting>& result : results) {
    EXPECT_TRUE(result.ok()) << result.error().message;
  }
  ASSERT_EQ(dropped.size(), 2u);
  for (const std::string& line : dropped) {
    EXPECT_EQ(line,
              "rendezvous: dropped a connection from 127.0.0.1: the other end does not know the "
              "token of this run");
  }
}

TEST(Rendezvous, RefusesAPortThatIsInUse) {
  const Result<net::Socket> taken = net::listen_on(0);
  const Result<Meeting> result = rendezvous(
      {.position = {.rank = 0, .size = 2}, .host = "127.0.0.1", .port = net::port_of(*taken)});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::kInput);
}

}  // namespace
}  // namespace cadre::comm
