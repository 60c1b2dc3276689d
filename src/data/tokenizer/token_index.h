// TokenIndex: from the bytes of a token to its id.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cadre::data {

// The bytes are not copied: they outlive the index.
class TokenIndex {
 public:
  static constexpr int32_t kNone = -1;

  explicit TokenIndex(size_t tokens = 0) {
    size_t slots = 16;
    while (slots < 2 * tokens) {
      slots *= 2;
    }
    slots_.resize(slots);
  }

  // False, and nothing changes, if the bytes are known already.
  bool insert(std::string_view bytes, int32_t id) {
    Slot* slot = find_slot(bytes);
    if (slot->id != kNone) {
      return false;
    }
    *slot = {.bytes = bytes, .id = id};
    if (2 * ++size_ > slots_.size()) {
      grow();
    }
    return true;
  }

  int32_t find(std::string_view bytes) const {
    return const_cast<TokenIndex*>(this)->find_slot(bytes)->id;
  }

 private:
  struct Slot {
    std::string_view bytes = {};
    int32_t id = kNone;
  };

  static uint64_t hash_of(std::string_view bytes) {
    uint64_t hash = 0xCBF29CE484222325;
    for (const char byte : bytes) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
    }
    return hash ^ (hash >> 29);
  }

  Slot* find_slot(std::string_view bytes) {
    size_t place = hash_of(bytes) & (slots_.size() - 1);
    while (slots_[place].id != kNone && slots_[place].bytes != bytes) {
      place = (place + 1) & (slots_.size() - 1);
    }
    return &slots_[place];
  }

  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.id != kNone) {
        *find_slot(slot.bytes) = slot;
      }
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace cadre::data
