#include "device/thread_pool.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cadre {
namespace {

constexpr uint32_t kClosed = 0xFFFFFFFF;  // a tile that no round has

constexpr int kSpins = 2000;  // about 20 microseconds: the gap between two kernels of a step

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

// Waits until `value` is no longer `old`, spinning first.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) {
      return;
    }
    relax();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  CADRE_CHECK(threads >= 1, threads, " threads");
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
}

void ThreadPool::take_tiles(int thread) {
  uint64_t next = next_.load(std::memory_order_acquire);
  for (;;) {
    const auto tile = static_cast<uint32_t>(next);
    // If any of the three is of a later round, next_ was closed before it changed, and the exchange
    // fails.
    const uint32_t tiles = tiles_.load(std::memory_order_acquire);
    const Call call = call_.load(std::memory_order_acquire);
    const void* const body = body_.load(std::memory_order_acquire);
    if (tile >= tiles) {
      return;
    }
    if (next_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      call(body, tile, thread);
      if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        left_.notify_one();
      }
      next = next_.load(std::memory_order_acquire);
    }
  }
}

void ThreadPool::run_on_all(int64_t tiles, Call call, const void* body) {
  CADRE_CHECK(tiles < kClosed, tiles, " tiles");
  const uint32_t round = round_.load(std::memory_order_relaxed) + 1;
  const uint64_t first = uint64_t{round} << 32;
  next_.store(first | kClosed, std::memory_order_relaxed);
  tiles_.store(static_cast<uint32_t>(tiles), std::memory_order_release);
  call_.store(call, std::memory_order_release);
  body_.store(body, std::memory_order_release);
  left_.store(static_cast<uint32_t>(tiles), std::memory_order_relaxed);
  next_.store(first, std::memory_order_release);
  round_.fetch_add(1, std::memory_order_acq_rel);  // no plain store: who sleeps must be seen
  round_.notify_all();
  take_tiles(0);
  for (uint32_t left = left_.load(std::memory_order_acquire); left != 0;
       left = left_.load(std::memory_order_acquire)) {
    wait_for_change(left_, left);
  }
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(round_, seen);
    seen = round_.load(std::memory_order_acquire);
    if (stopping_) {
      return;
    }
    take_tiles(thread);
  }
}

}  // namespace cadre
