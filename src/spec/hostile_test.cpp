#include "spec/hostile.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace cadre {
namespace {

constexpr std::string_view kSeed = R"(# a run
name: "mutant"
model: {model_type: llama, hidden_size: 24, rope_scaling: {rope_type: yarn, factor: 4.5}}
tokenizer: {train: {vocab_size: 777}}
data:
  sources:
    - {name: 'é 🦊', paths: ["*.txt", b], weight: 1e-1}
    - paths: c.jsonl.gz
      field: |
        two
        lines
training:
  steps: 1_000
  seed: 18446744073709551615
  parameter_groups: [{parameters: "*.bias", weight_decay: 0.0}]
  gradient_checkpointing: true
sample: {prompt: "a\n\u007f\"", top_p: .5}
)";

constexpr std::string_view kPieces[] = {
    "&a ",  "*a",   "<<: ", "!!str ",       "[",    "]",    "{",  "}",   "- ",  "? ",
    ": ",   "\n",   "\t",   "|\n",          ">-\n", "'",    "\"", "---", "...", "%TAG",
    "#",    "\xFF", "\xE2", "null",         "~",    "1e99", "-0", "0x1", "\r",  "\\x",
    "\\u0", "a: ",  ".nan", "\xEF\xBB\xBF", ", ",   "  "};

std::string mutant(std::mt19937_64& random) {
  std::string text(kSeed);
  const auto below = [&random](size_t bound) { return static_cast<size_t>(random() % bound); };
  for (size_t edits = 1 + below(6); edits > 0 && !text.empty(); --edits) {
    const size_t at = below(text.size());
    switch (below(5)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text.erase(at, 1 + below(20));
        break;
      case 2:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      case 3:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      default:
        text.resize(at);
    }
  }
  return text;
}

TEST(Hostile, MutatedConfigurationsAreReadOrRefusedWithAPlace) {
  std::mt19937_64 random(2024);
  for (int i = 0; i < 3000; ++i) {
    check_any_text(mutant(random));
  }
}

TEST(Hostile, TheSeedItselfIsReadAndReadsBack) {
  EXPECT_TRUE(read_run_text(kSeed, "/conf/run.yaml").ok());
  check_any_text(kSeed);
}

TEST(Hostile, LargeAndDeepTextsAreRefusedAtOnce) {
  for (const std::string_view piece :
       {"[", "{", "{a: ", "- ", "? ", "a: {b: ", "&a ", "*a ", "'", "\"", "a: b\n", "a:\n", " ",
        "#", "x", "!", "|\n", "[a, ", ": "}) {
    std::string text;
    while (text.size() < 200000) {
      text += piece;
    }
    check_any_text(text);
  }
}

}  // namespace
}  // namespace cadre
