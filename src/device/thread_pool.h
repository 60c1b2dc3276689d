// ThreadPool: the threads of one rank.
//
// A kernel cuts its work into a grid of tiles that depends on shapes only; threads take tiles in
// any order. So the number of threads never changes a bit of a result, and a thread that the
// machine holds up does not hold up the others. Idle threads spin for a moment and then sleep: a
// busy neighbour costs its share and no more.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace cadre {

class ThreadPool {
 public:
  // `threads` counts the caller, which works too.
  explicit ThreadPool(int threads = 1);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(tile, thread) for every tile in [0, tiles); `thread` is in [0, threads()) and says
  // whose scratch to use. Returns when all have returned. Not reentrant; one caller at a time.
  // What `body` throws ends the process: kernels do not throw.
  template <typename Body>
  void run(int64_t tiles, const Body& body) {
    if (workers_.empty() || tiles <= 1) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        body(tile, 0);
      }
      return;
    }
    const auto call = [](const void* object, int64_t tile, int thread) {
      (*static_cast<const Body*>(object))(tile, thread);
    };
    run_on_all(tiles, call, &body);
  }

 private:
  using Call = void (*)(const void* body, int64_t tile, int thread);

  void run_on_all(int64_t tiles, Call call, const void* body);
  void work(int thread);
  void take_tiles(int thread);

  // A round is over when its tiles are done, not when every worker has looked: one that the machine
  // keeps asleep is not waited for. So it may wake in a later round, and what it finds is atomic.
  std::atomic<Call> call_ = nullptr;
  std::atomic<const void*> body_ = nullptr;
  std::atomic<uint32_t> tiles_ = 0;
  alignas(64) std::atomic<uint64_t> next_ = 0;   // round in the upper half, next tile in the lower
  alignas(64) std::atomic<uint32_t> round_ = 0;  // counts the calls of run(); workers wait for it
  alignas(64) std::atomic<uint32_t> left_ = 0;   // tiles of this round that are not done
  std::atomic<bool> stopping_ = false;
  std::vector<std::jthread> workers_;
};

}  // namespace cadre
