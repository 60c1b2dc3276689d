// Normalizer: what tokenizer.json does to text before it is cut into pieces.

#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cadre::data {

class NormalizerStep {
 public:
  virtual ~NormalizerStep() = default;

  // What `text`, valid UTF-8, becomes: `text` itself or `storage`, which it does not view.
  virtual std::string_view apply(std::string_view text, std::string& storage) const = 0;

  virtual bool prepends() const { return false; }
};

class Normalizer {
 public:
  // NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, and Sequence of these;
  // null is none. Any other type is refused by name.
  static Result<Normalizer> parse(const Json& json);

  bool is_empty() const { return steps_.empty(); }

  // May return a view of `storage`. Without `prepend` nothing is put in front of the text.
  std::string_view apply(std::string_view text, std::string& storage, bool prepend = true) const;

 private:
  std::vector<std::unique_ptr<NormalizerStep>> steps_;
};

}  // namespace cadre::data
