#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "base/check.h"
#include "data/tokenizer/utf8.h"

namespace cadre::data {
namespace {

constexpr uint32_t kNoSymbol = UINT32_MAX;

std::string fallback_name(size_t byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name = "<0x00>";
  name[3] = kDigits[byte >> 4];
  name[4] = kDigits[byte & 15];
  return name;
}

uint64_t low_bytes(uint64_t word, size_t bytes) {
  return bytes >= 8 ? word : word & ((uint64_t{1} << (8 * bytes)) - 1);
}

}  // namespace

PieceCache::Entry PieceCache::key_of(const char* piece, size_t size, size_t readable) {
  Entry key;
  key.bytes = static_cast<uint16_t>(size);
  if (std::endian::native == std::endian::little && readable >= 16) {
    std::memcpy(&key.low, piece, 8);
    std::memcpy(&key.high, piece + 8, 8);
    key.low = low_bytes(key.low, size);
    key.high = size > 8 ? low_bytes(key.high, size - 8) : 0;
  } else {
    std::memcpy(&key.low, piece, std::min<size_t>(size, 8));
    std::memcpy(&key.high, piece + std::min<size_t>(size, 8), size - std::min<size_t>(size, 8));
  }
  return key;
}

size_t PieceCache::hash_of(const Entry& key) {
  const uint64_t mixed =
      key.low * 0x9E3779B97F4A7C15u ^ std::rotl(key.high * 0xC2B2AE3D27D4EB4Fu, 31);
  return static_cast<size_t>(((mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u) >> 40);
}

void PieceCache::count_miss() {
  if (++misses_ > 2 * entries_.size() && entries_.size() < kEntriesMax) {
    misses_ = 0;
    entries_.assign(4 * entries_.size(), Entry{});
  }
}

Bpe::Bpe(std::vector<std::optional<std::string_view>> tokens, const std::vector<Merge>& merges,
         const BpeOptions& options)
    : tokens_(std::move(tokens)), options_(options), index_(tokens_.size()) {
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id]) {
      index_.insert(*tokens_[id], static_cast<int32_t>(id));
    }
  }
  int bits = 4;
  while ((size_t{1} << bits) < 2 * merges.size()) {
    ++bits;
  }
  slots_.resize(size_t{1} << bits);
  shift_ = 64 - bits;
  // A pair that stands twice counts where it stands last, as in Hugging Face's libraries.
  for (size_t rank = merges.size(); rank-- > 0;) {
    const Merge& merge = merges[rank];
    insert(merge.left, merge.right, {static_cast<uint32_t>(rank), merge.merged});
  }
  has_fallback_ = options_.byte_fallback;
  for (size_t byte = 0; byte < 256; ++byte) {
    const char letter = static_cast<char>(static_cast<unsigned char>(byte));
    byte_ids_[byte] = index_.find({&letter, 1});
    fallback_ids_[byte] = index_.find(fallback_name(byte));
  }
}

void Bpe::insert(int32_t left, int32_t right, Found found) {
  const uint64_t pair = pair_of(left, right);
  size_t place = place_of(pair);
  while (slots_[place].pair != kNoPair) {
    if (slots_[place].pair == pair) {
      return;
    }
    place = (place + 1) & (slots_.size() - 1);
  }
  slots_[place] = {.pair = pair, .found = found};
}

Bpe::Found Bpe::find(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t place = place_of(pair);; place = (place + 1) & (slots_.size() - 1)) {
    if (slots_[place].pair == pair) {
      return slots_[place].found;
    }
    if (slots_[place].pair == kNoPair) {
      return {};
    }
  }
}

bool Bpe::can_cut_before(std::string_view mark) const {
  return std::none_of(tokens_.begin(), tokens_.end(), [mark](const auto& token) {
    if (!token) {
      return false;
    }
    size_t marks = 0;  // the run of marks at the front
    while (token->substr(marks).starts_with(mark)) {
      marks += mark.size();
    }
    return token->find(mark, marks) != std::string_view::npos;
  });
}

int32_t Bpe::symbol_at(std::string_view piece, size_t at, size_t& bytes) const {
  const auto lead = static_cast<unsigned char>(piece[at]);
  bytes = options_.bytes ? 1 : utf8_size(lead);
  return bytes == 1 ? byte_ids_[lead] : index_.find(piece.substr(at, bytes));
}

void Bpe::encode(std::string_view piece, size_t readable, BpeScratch& scratch,
                 std::vector<int32_t>& ids) const {
  if (piece.size() > PieceCache::kBytesMax) {
    encode_new(piece, scratch, ids);
    return;
  }
  if (piece.empty()) {
    return;
  }
  const PieceCache::Entry key = PieceCache::key_of(piece.data(), piece.size(), readable);
  PieceCache::Entry& entry = scratch.cache.at(key);
  if (!entry.holds(key)) {
    const size_t before = ids.size();
    const size_t section = std::exchange(scratch.section, before);  // as if the piece stood alone
    encode_new(piece, scratch, ids);
    scratch.section = section;
    const size_t size = ids.size() - before;
    if (size <= PieceCache::kIdsMax) {
      entry = key;
      entry.ids_size = static_cast<uint16_t>(size);
      std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids.begin());
    }
    scratch.cache.count_miss();  // `entry` is no more
    if (options_.fuse_unk && before > section && size > 0 && ids[before] == options_.unk_id &&
        ids[before - 1] == options_.unk_id) {
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(before));
    }
    return;
  }
  const bool fuses = options_.fuse_unk && entry.ids_size > 0 && entry.ids[0] == options_.unk_id &&
                     ids.size() > scratch.section && ids.back() == options_.unk_id;
  const int32_t* first = entry.ids.data() + (fuses ? 1 : 0);
  if (first + 1 == entry.ids.data() + entry.ids_size) {
    ids.push_back(*first);
  } else {
    ids.insert(ids.end(), first, static_cast<const int32_t*>(entry.ids.data()) + entry.ids_size);
  }
}

void Bpe::encode_new(std::string_view piece, BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const int32_t id = index_.find(piece); id != TokenIndex::kNone) {
      ids.push_back(id);
      return;
    }
  }
  if (piece.size() <= kShortMax) {
    encode_short(piece, scratch, ids);
  } else {
    encode_long(piece, scratch, ids);
  }
}

// Looks through all pairs for each merge: for a few symbols that is the fastest way.
void Bpe::encode_short(std::string_view piece, BpeScratch& scratch,
                       std::vector<int32_t>& ids) const {
  std::array<int32_t, kShortMax> symbols;
  std::array<uint32_t, kShortMax> ranks;
  std::array<int32_t, kShortMax> merged;
  std::array<uint8_t, kShortMax + 1> offsets;
  size_t size = 0;
  for (size_t at = 0, bytes = 0; at < piece.size(); at += bytes) {
    offsets[size] = static_cast<uint8_t>(at);
    symbols[size++] = symbol_at(piece, at, bytes);
  }
  offsets[size] = static_cast<uint8_t>(piece.size());
  const auto look_up = [&](size_t left) {
    const Found found = find(symbols[left], symbols[left + 1]);
    ranks[left] = found.rank;
    merged[left] = found.merged;
  };
  for (size_t i = 0; i + 1 < size; ++i) {
    look_up(i);
  }
  while (size > 1) {
    size_t best = 0;
    uint32_t best_rank = kNoRank;
    for (size_t i = 0; i + 1 < size; ++i) {
      if (ranks[i] < best_rank) {
        best_rank = ranks[i];
        best = i;
      }
    }
    if (best_rank == kNoRank) {
      break;
    }
    symbols[best] = merged[best];
    --size;
    for (size_t i = best + 1; i < size; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
      merged[i] = merged[i + 1];
      offsets[i] = offsets[i + 1];
    }
    offsets[size] = static_cast<uint8_t>(piece.size());
    if (best > 0) {
      look_up(best - 1);
    }
    if (best + 1 < size) {
      look_up(best);
    }
  }
  for (size_t i = 0; i < size; ++i) {
    append(symbols[i], piece.substr(offsets[i], size_t{offsets[i + 1]} - offsets[i]), scratch, ids);
  }
}

void Bpe::encode_long(std::string_view piece, BpeScratch& scratch,
                      std::vector<int32_t>& ids) const {
  CADRE_CHECK(piece.size() < kNoSymbol, "a piece of 4 GiB or more");
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  symbols.clear();
  for (size_t at = 0, bytes = 0; at < piece.size(); at += bytes) {
    const auto place = static_cast<uint32_t>(symbols.size());
    symbols.push_back({.id = symbol_at(piece, at, bytes),
                       .previous = place - 1,  // of the first: kNoSymbol
                       .next = place + 1,
                       .offset = static_cast<uint32_t>(at)});
  }
  symbols.back().next = kNoSymbol;
  merge_long(scratch);
  for (uint32_t place = 0; place != kNoSymbol; place = symbols[place].next) {
    const uint32_t next = symbols[place].next;
    const size_t end = next == kNoSymbol ? piece.size() : symbols[next].offset;
    append(symbols[place].id, piece.substr(symbols[place].offset, end - symbols[place].offset),
           scratch, ids);
  }
}

// Takes pairs from a queue, the best first. An entry whose pair has changed since is passed over:
// the symbol's rank tells.
void Bpe::merge_long(BpeScratch& scratch) const {
  std::vector<BpeScratch::Symbol>& symbols = scratch.symbols;
  std::vector<uint64_t>& queue = scratch.queue;
  queue.clear();
  const auto look_up = [&](uint32_t place) {
    BpeScratch::Symbol& symbol = symbols[place];
    symbol.rank = kNoRank;
    if (symbol.next != kNoSymbol) {
      const Found found = find(symbol.id, symbols[symbol.next].id);
      symbol.rank = found.rank;
      symbol.merged = found.merged;
    }
    return symbol.rank != kNoRank;
  };
  const auto entry = [&](uint32_t place) { return (uint64_t{symbols[place].rank} << 32) | place; };
  for (uint32_t place = 0; place < symbols.size(); ++place) {
    if (look_up(place)) {
      queue.push_back(entry(place));
    }
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  const auto push = [&](uint32_t place) {
    if (look_up(place)) {
      queue.push_back(entry(place));
      std::push_heap(queue.begin(), queue.end(), std::greater<>());
    }
  };
  while (!queue.empty()) {
    const uint64_t best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    const auto place = static_cast<uint32_t>(best);
    BpeScratch::Symbol& symbol = symbols[place];
    if (symbol.rank != static_cast<uint32_t>(best >> 32)) {
      continue;
    }
    BpeScratch::Symbol& taken = symbols[symbol.next];
    symbol.id = symbol.merged;
    symbol.next = taken.next;
    taken.rank = kNoRank;
    if (symbol.next != kNoSymbol) {
      symbols[symbol.next].previous = place;
    }
    push(place);
    if (symbol.previous != kNoSymbol) {
      push(symbol.previous);
    }
  }
}

void Bpe::append(int32_t id, std::string_view bytes, BpeScratch& scratch,
                 std::vector<int32_t>& ids) const {
  if (id != TokenIndex::kNone) {
    if (options_.fuse_unk && id == options_.unk_id) {
      append_unknown(scratch, ids);
    } else {
      ids.push_back(id);
    }
    return;
  }
  const auto fallback = [this](char byte) {
    return fallback_ids_[static_cast<unsigned char>(byte)];
  };
  if (has_fallback_ && std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
        return fallback(byte) != TokenIndex::kNone;
      })) {
    for (const char byte : bytes) {
      ids.push_back(fallback(byte));
    }
    return;
  }
  append_unknown(scratch, ids);
}

void Bpe::append_unknown(const BpeScratch& scratch, std::vector<int32_t>& ids) const {
  if (options_.unk_id == TokenIndex::kNone) {
    return;
  }
  if (options_.fuse_unk && ids.size() > scratch.section && ids.back() == options_.unk_id) {
    return;
  }
  ids.push_back(options_.unk_id);
}

}  // namespace cadre::data
