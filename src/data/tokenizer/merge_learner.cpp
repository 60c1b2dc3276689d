#include "data/tokenizer/merge_learner.h"

#include <algorithm>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/check.h"

namespace cadre::data {
namespace {

struct Pair {
  int32_t left = 0;
  int32_t right = 0;
  int64_t count = 0;
  std::vector<uint32_t> words = {};  // where it occurs, or did; one may stand there several times
};

// From two ids to the number of their Pair.
class PairTable {
 public:
  PairTable() : slots_(size_t{1} << 16) {}

  Pair& operator[](int32_t number) { return pairs_[static_cast<size_t>(number)]; }
  int32_t size() const { return static_cast<int32_t>(pairs_.size()); }

  // A pair that is not known yet is added with the count 0.
  int32_t find(int32_t left, int32_t right) {
    const uint64_t key =
        (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
    size_t place = place_of(key);
    while (slots_[place].number >= 0 && slots_[place].key != key) {
      place = (place + 1) & (slots_.size() - 1);
    }
    if (slots_[place].number < 0) {
      slots_[place] = {.key = key, .number = size()};
      pairs_.push_back({.left = left, .right = right});
      if (2 * pairs_.size() > slots_.size()) {
        grow();
      }
      return size() - 1;
    }
    return slots_[place].number;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    int32_t number = -1;
  };

  size_t place_of(uint64_t key) const {
    const uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    return static_cast<size_t>(mixed ^ (mixed >> 32)) & (slots_.size() - 1);
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.number >= 0) {
        size_t place = place_of(slot.key);
        while (slots_[place].number >= 0) {
          place = (place + 1) & (slots_.size() - 1);
        }
        slots_[place] = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  std::vector<Pair> pairs_;
};

// An entry of the queue: what a pair's count was when it was put there. Counts only fall
// afterwards.
struct Candidate {
  int64_t count = 0;
  int32_t left = 0;
  int32_t right = 0;
  int32_t pair = 0;

  bool operator<(const Candidate& other) const {  // the largest is taken first
    if (count != other.count) {
      return count < other.count;
    }
    return left != other.left ? left > other.left : right > other.right;
  }
};

class Learner {
 public:
  explicit Learner(const std::vector<CountedWord>& words) {
    CADRE_CHECK(words.size() < UINT32_MAX, words.size(), " words");
    words_.reserve(words.size());
    for (const CountedWord& word : words) {
      words_.push_back({.begin = symbols_.size(), .size = word.bytes.size(), .count = word.count});
      for (const char byte : word.bytes) {
        symbols_.push_back(static_cast<unsigned char>(byte));
      }
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      tokens_.emplace_back(1, static_cast<char>(static_cast<unsigned char>(byte)));
      ids_[tokens_.back()] = static_cast<int32_t>(byte);
    }
    for (uint32_t number = 0; number < words_.size(); ++number) {
      const std::span<const int32_t> symbols = symbols_of(words_[number]);
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        count_pair(symbols[i], symbols[i + 1], number);
      }
    }
    queue_grown_pairs();
  }

  std::vector<Merge> run(int64_t tokens_max, int64_t count_min, const StopAsked& stop) {
    std::vector<Merge> merges;
    while (static_cast<int64_t>(tokens_.size()) < tokens_max && !queue_.empty() &&
           stop_status(stop).ok()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[best.pair].count;
      if (count < best.count && count >= count_min) {  // it has become rarer: back to its place
        queue_.push({count, best.left, best.right, best.pair});
      }
      if (count != best.count) {
        continue;
      }
      if (count < count_min) {
        break;
      }
      merges.push_back({best.left, best.right, id_of_joined(best.left, best.right)});
      join(best.pair, merges.back());
      queue_grown_pairs();
    }
    return merges;
  }

 private:
  struct Word {
    size_t begin = 0;  // in symbols_
    size_t size = 0;
    int64_t count = 0;
  };

  std::span<int32_t> symbols_of(const Word& word) {
    return std::span(symbols_).subspan(word.begin, word.size);
  }

  int32_t id_of_joined(int32_t left, int32_t right) {
    std::string bytes = tokens_[static_cast<size_t>(left)] + tokens_[static_cast<size_t>(right)];
    const auto next = static_cast<int32_t>(tokens_.size());
    const auto [known, is_new] = ids_.try_emplace(bytes, next);
    if (is_new) {
      tokens_.push_back(std::move(bytes));
    }
    return known->second;
  }

  void count_pair(int32_t left, int32_t right, uint32_t word) {
    const int32_t number = pairs_.find(left, right);
    Pair& pair = pairs_[number];
    grown_.push_back(number);
    pair.count += words_[word].count;
    if (pair.words.empty() || pair.words.back() != word) {
      pair.words.push_back(word);
    }
  }
  void uncount_pair(int32_t left, int32_t right, uint32_t word) {
    pairs_[pairs_.find(left, right)].count -= words_[word].count;
  }

  void queue_grown_pairs() {
    std::sort(grown_.begin(), grown_.end());
    grown_.erase(std::unique(grown_.begin(), grown_.end()), grown_.end());
    for (const int32_t number : grown_) {
      const Pair& pair = pairs_[number];
      if (pair.count > 0) {
        queue_.push({pair.count, pair.left, pair.right, number});
      }
    }
    grown_.clear();
  }

  void join(int32_t number, const Merge& merge) {
    const std::vector<uint32_t> words = std::exchange(pairs_[number].words, {});
    for (const uint32_t word : words) {
      join_in(word, merge);
    }
    pairs_[number].count = 0;
  }

  void join_in(uint32_t number, const Merge& merge) {
    Word& word = words_[number];
    const std::span<int32_t> symbols = symbols_of(word);
    size_t kept = 0;
    for (size_t i = 0; i < symbols.size(); ++i) {
      const bool is_pair =
          i + 1 < symbols.size() && symbols[i] == merge.left && symbols[i + 1] == merge.right;
      if (!is_pair) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        uncount_pair(symbols[kept - 1], merge.left, number);
        count_pair(symbols[kept - 1], merge.merged, number);
      }
      if (i + 2 < symbols.size()) {
        uncount_pair(merge.right, symbols[i + 2], number);
        count_pair(merge.merged, symbols[i + 2], number);
      }
      symbols[kept++] = merge.merged;
      ++i;
    }
    word.size = kept;
  }

  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> ids_;  // of tokens_
  PairTable pairs_;
  std::vector<int32_t> grown_;  // pairs whose count has grown since they were put into the queue
  std::priority_queue<Candidate> queue_;
};

}  // namespace

std::vector<Merge> learn_merges(const std::vector<CountedWord>& words, int64_t tokens_max,
                                int64_t count_min, const StopAsked& stop) {
  return Learner(words).run(tokens_max, count_min, stop);
}

}  // namespace cadre::data
