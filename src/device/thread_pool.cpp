#include "device/thread_pool.h"

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace cadre {
namespace {

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
  for (;;) {
    const int64_t tile = next_tile_.fetch_add(1, std::memory_order_relaxed);
    if (tile >= tiles_) {
      return;
    }
    call_(body_, tile, thread);
  }
}

void ThreadPool::run_on_all(int64_t tiles, Call call, const void* body) {
  call_ = call;
  body_ = body;
  tiles_ = tiles;
  next_tile_.store(0, std::memory_order_relaxed);
  working_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  take_tiles(0);
  for (uint32_t left = working_.load(std::memory_order_acquire); left != 0;
       left = working_.load(std::memory_order_acquire)) {
    wait_for_change(working_, left);
  }
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(round_, seen);
    // One round at a time: the caller waits for every worker before it begins the next.
    seen = round_.load(std::memory_order_acquire);
    if (stopping_) {
      return;
    }
    take_tiles(thread);
    if (working_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      working_.notify_one();
    }
  }
}

}  // namespace cadre
