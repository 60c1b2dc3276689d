#include "data/tokenizer/trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "data/tokenizer/merge_learner.h"

namespace cadre::data {
namespace {

// The definition, carried out: all pairs are counted anew for every merge.
std::vector<Merge> learn_plainly(const std::vector<CountedWord>& words, int64_t tokens_max,
                                 int64_t count_min) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.emplace_back(1, static_cast<char>(static_cast<unsigned char>(byte)));
  }
  std::vector<std::vector<int32_t>> symbols;
  for (const CountedWord& word : words) {
    symbols.emplace_back();
    for (const char byte : word.bytes) {
      symbols.back().push_back(static_cast<unsigned char>(byte));
    }
  }
  std::vector<Merge> merges;
  while (static_cast<int64_t>(tokens.size()) < tokens_max) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (size_t w = 0; w < words.size(); ++w) {
      for (size_t i = 0; i + 1 < symbols[w].size(); ++i) {
        counts[{symbols[w][i], symbols[w][i + 1]}] += words[w].count;
      }
    }
    std::pair<int32_t, int32_t> best;
    int64_t best_count = 0;
    for (const auto& [pair, count] : counts) {  // in order of the ids
      if (count > best_count) {
        best = pair;
        best_count = count;
      }
    }
    if (best_count < count_min) {
      break;
    }
    const std::string joined =
        tokens[static_cast<size_t>(best.first)] + tokens[static_cast<size_t>(best.second)];
    const auto known = std::find(tokens.begin(), tokens.end(), joined);
    const auto id = static_cast<int32_t>(known - tokens.begin());
    if (known == tokens.end()) {
      tokens.push_back(joined);
    }
    merges.push_back({best.first, best.second, id});
    for (std::vector<int32_t>& word : symbols) {
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        if (word[i] == best.first && word[i + 1] == best.second) {
          word[i] = id;
          word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
        }
      }
    }
  }
  return merges;
}

TEST(MergeLearner, LearnsWhatCountingAnewEachTimeLearns) {
  for (uint64_t stream = 0; stream < 60; ++stream) {
    const RandomKey key{.seed = 3, .stream = stream};
    std::vector<CountedWord> words;
    int64_t next = 0;
    const auto below = [&key, &next](uint32_t end) { return random_word_at(key, next++) % end; };
    const uint32_t letters = 2 + below(3);  // few letters: pairs overlap and spell the same token
    for (uint32_t w = 0; w < 30; ++w) {
      CountedWord word{.count = 1 + below(9)};
      for (uint32_t length = 1 + below(12); length > 0; --length) {
        word.bytes += static_cast<char>('a' + below(letters));
      }
      words.push_back(word);
    }
    EXPECT_EQ(learn_merges(words, 256 + 80, 2), learn_plainly(words, 256 + 80, 2)) << stream;
  }
}

TEST(MergeLearner, StopsWhereNothingIsFrequentEnough) {
  EXPECT_EQ(learn_merges({{"ab", 2}, {"cd", 3}}, 300, 3).size(), 1u);
  EXPECT_TRUE(learn_merges({}, 300, 1).empty());
}

// Serves the texts one after another.
TextSource source_of(const std::vector<std::string>& texts) {
  return [texts, next = size_t{0}](std::string& chunk) mutable -> Result<bool> {
    if (next == texts.size()) {
      return false;
    }
    chunk = texts[next++];
    return true;
  };
}

std::vector<std::string> corpus() {
  const std::vector<std::string> words = {"the ",   "tree ",  "and ", "then ", "12",           "\n",
                                          "Bäume ", "don't ", "日本", "  ",    "<|endoftext|>"};
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 50; ++i) {
    std::string text;
    for (int64_t j = 0; j < 40; ++j) {
      text += words[random_word_at({.seed = 9, .stream = i}, j) % words.size()];
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(Trainer, DoesNotDependOnTheNumberOfThreads) {
  std::vector<uint64_t> fingerprints;
  for (const int threads : {1, 2, 5}) {
    const auto tokenizer =
        train_tokenizer(source_of(corpus()), {.vocab_size = 320, .threads = threads});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    fingerprints.push_back((*tokenizer)->fingerprint());
  }
  EXPECT_EQ(fingerprints[0], fingerprints[1]);
  EXPECT_EQ(fingerprints[0], fingerprints[2]);
}

TEST(Trainer, MakesATokenizerThatReadsBackWhatItWrites) {
  for (const PreTokenization kind : {PreTokenization::kGpt2, PreTokenization::kLlama3}) {
    const auto tokenizer =
        train_tokenizer(source_of(corpus()), {.vocab_size = 300,
                                              .pre_tokenization = kind,
                                              .special_tokens = {"<|begin|>", "<|endoftext|>"},
                                              .bos_token = "<|begin|>"});
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    EXPECT_EQ((*tokenizer)->vocab_size(), 300);
    EXPECT_EQ((*tokenizer)->bos_id(), 298);
    EXPECT_EQ((*tokenizer)->eos_id(), 299);
    const std::string text = "the tree \xF0\x9F\x98\x80<|endoftext|> don't";
    const std::vector<int32_t> ids = (*tokenizer)->encode(text);
    EXPECT_EQ(ids.front(), 298);
    EXPECT_EQ((*tokenizer)->decode(std::span(ids).subspan(1)), text);
    EXPECT_NE(std::find(ids.begin(), ids.end(), 299), ids.end());
    const std::string file = testing::TempDir() + "trained_tokenizer";
    ASSERT_TRUE((*tokenizer)->save(file).ok());
    const auto again = Tokenizer::load(file);
    ASSERT_TRUE(again.ok()) << again.error().message;
    EXPECT_EQ((*again)->encode(text), ids);
    EXPECT_EQ((*again)->fingerprint(), (*tokenizer)->fingerprint());
    EXPECT_EQ((*again)->bos_id(), 298);
    EXPECT_EQ((*again)->eos_id(), 299);
  }
}

TEST(Trainer, LearnsNothingFromSpecialTokensAndFromInvalidBytes) {
  const auto tokenizer = train_tokenizer(
      source_of({"<|endoftext|><|endoftext|><|endoftext|>", "\xFF\xFF\xFF"}), {.vocab_size = 400});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  // U+FFFD is learned in the place of what is invalid: its three bytes, and pairs of it.
  for (int32_t id = 0; id < (*tokenizer)->vocab_size(); ++id) {
    EXPECT_NE((*tokenizer)->token_of_id(id), "endoftext") << id;
  }
  EXPECT_LT((*tokenizer)->vocab_size(), 264);
}

TEST(Trainer, RefusesWhatCannotBeTrained) {
  const auto refusal = [](const TrainerOptions& options) {
    const auto tokenizer = train_tokenizer(source_of({"a"}), options);
    return tokenizer.ok() ? "" : tokenizer.error().message;
  };
  EXPECT_NE(refusal({.vocab_size = 256}).find("256 tokens cannot hold"), std::string::npos);
  EXPECT_NE(refusal({.eos_token = "<x>"}).find("\"<x>\" is not one of"), std::string::npos);
  EXPECT_NE(refusal({.special_tokens = {"<a>", "<a>"}, .eos_token = ""}).find("stands twice"),
            std::string::npos);
  EXPECT_NE(refusal({.min_frequency = 0}).find("min_frequency is 0"), std::string::npos);
}

TEST(Trainer, PassesOnTheErrorOfItsSource) {
  const TextSource broken = [](std::string&) -> Result<bool> { return failure("disk on fire"); };
  for (const int threads : {1, 3}) {
    const auto tokenizer = train_tokenizer(broken, {.threads = threads});
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.error().message, "disk on fire");
  }
}

}  // namespace
}  // namespace cadre::data
