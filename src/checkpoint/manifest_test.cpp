#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "storage/checksum.h"

namespace cadre {
namespace {

Manifest example() {
  return {.step = 500,
          .files = {{.name = "config.json", .bytes = 421, .checksum = 0x1},
                    {.name = "model.safetensors", .bytes = 4096, .checksum = 0xfedcba9876543210}},
          .model = {{.name = "a",
                     .type = StoredType::kBf16,
                     .shape = {3, 4},
                     .pieces = {{.file = "model.safetensors",
                                 .entry = "a[0:2,0:4]",
                                 .box = {.first = {0, 0}, .size = {2, 4}}},
                                {.file = "model.safetensors",
                                 .entry = "a[2:3,0:4]",
                                 .box = {.first = {2, 0}, .size = {1, 4}}}}},
                    {.name = "b \"\u00e9\"",
                     .type = StoredType::kF32,
                     .shape = {},
                     .pieces = {{.file = "model.safetensors",
                                 .entry = "b \"\u00e9\"",
                                 .box = all_of({})}}}},
          .optimizer = {}};
}

// The example with one part of its text replaced, and its own checksum made right again.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = format_manifest(example());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  const size_t digits = text.find("manifest_xxh3_64\": \"") + 20;
  text.replace(digits, 16, std::string(16, '0'));
  text.replace(digits, 16, checksum_text(checksum_of(std::as_bytes(std::span(text)))));
  return text;
}

std::string refusal(const std::string& text) {
  const Result<Manifest> manifest = parse_manifest(text, "manifest.json");
  if (manifest) {
    return "";
  }
  EXPECT_EQ(manifest.error().kind, ErrorKind::kInput);
  return manifest.error().message;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(ManifestTest, ReadsWhatItWrote) {
  const Result<Manifest> manifest = parse_manifest(format_manifest(example()), "manifest.json");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(*manifest, example());
  EXPECT_EQ(manifest->bytes(), 4517);
}

TEST(ManifestTest, LeavesOutWhatAWholeTensorDoesNotNeed) {
  const std::string text = format_manifest(example());
  EXPECT_TRUE(contains(
      text,
      R"({"name": "b \"é\"", "dtype": "F32", "shape": [], "pieces": [{"file": "model.safetensors"}]})"))
      << text;
  EXPECT_TRUE(contains(text, R"("entry": "a[2:3,0:4]", "first": [2, 0], "size": [1, 4]})"));
}

TEST(ManifestTest, NoticesAnyChangedOrMissingByte) {
  const std::string text = format_manifest(example());
  for (size_t at = 0; at < text.size(); ++at) {
    std::string flipped = text;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    EXPECT_NE(refusal(flipped), "") << at;
    EXPECT_NE(refusal(text.substr(0, at)), "") << at;
  }
  EXPECT_TRUE(contains(refusal(changed("500", "500 ").replace(150, 1, " ")), "own checksum"));
}

TEST(ManifestTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal(changed("500", "501")), "") << "changed() makes a whole manifest";
  EXPECT_TRUE(contains(refusal(changed("\"format_version\": 1", "\"format_version\": 2")),
                       "format_version 2, this program reads 1"));
  EXPECT_TRUE(contains(refusal(changed("cadre checkpoint", "other")), "\"cadre checkpoint\""));
  EXPECT_TRUE(contains(refusal(changed("\"step\": 500", "\"step\": -1")), "\"step\""));
  EXPECT_TRUE(
      contains(refusal(changed("\"BF16\"", "\"BF17\"")), "tensor \"a\" has the unknown dtype"));
  EXPECT_TRUE(contains(refusal("[]"), "needs a string \"format\"") ||
              contains(refusal("[]"), "not an object"));
}

TEST(ManifestTest, RefusesNamesThatLeaveTheFolder) {
  for (const char* name : {"../config.json", "", ".", "..", "a/b", "manifest.json", "a\\u0000b"}) {
    EXPECT_TRUE(
        contains(refusal(changed("\"config.json\"", concat("\"", name, "\""))), "may not be named"))
        << name;
  }
  EXPECT_TRUE(contains(refusal(changed("\"config.json\"", "\"model.safetensors\"")),
                       "has the name of another"));
}

TEST(ManifestTest, RefusesPiecesThatDoNotTileTheirTensor) {
  EXPECT_TRUE(contains(refusal(changed("\"first\": [2, 0]", "\"first\": [1, 0]")), "overlap"));
  EXPECT_TRUE(contains(refusal(changed("\"first\": [2, 0]", "\"first\": [3, 0]")), "outside"));
  EXPECT_TRUE(contains(refusal(changed("\"size\": [1, 4]", "\"size\": [1, 3]")),
                       "pieces of 11 elements, its shape [3, 4] has 12"));
  EXPECT_TRUE(contains(refusal(changed("\"first\": [2, 0]", "\"first\": [2]")), "dimensions"));
  EXPECT_TRUE(contains(refusal(changed("{\"file\": \"model.safetensors\"}", "{\"file\": \"x\"}")),
                       "not among the files"));
  EXPECT_TRUE(contains(refusal(changed("\"shape\": [3, 4]", "\"shape\": [4611686018427387904, 4]")),
                       "no possible shape"));
  EXPECT_TRUE(contains(refusal(changed("\"shape\": [3, 4]", "\"shape\": [1, 1, 1, 1, 1]")),
                       "more than four"));
}

TEST(TilingProblem, AcceptsEveryExactCoverAndNothingElse) {
  const auto box = [](int64_t row, int64_t column, int64_t rows, int64_t columns) {
    return Box{.first = {row, column}, .size = {rows, columns}};
  };
  const std::array pinwheel = {box(0, 0, 1, 2), box(0, 2, 2, 1), box(2, 1, 1, 2), box(1, 0, 2, 1),
                               box(1, 1, 1, 1)};
  EXPECT_EQ(tiling_problem({3, 3}, pinwheel), "");
  EXPECT_TRUE(contains(tiling_problem({3, 3}, std::span(pinwheel).first(4)), "8 elements"));
  const std::array with_empty = {box(0, 0, 3, 3), box(1, 1, 0, 2)};
  EXPECT_EQ(tiling_problem({3, 3}, with_empty), "");
  EXPECT_EQ(tiling_problem({}, std::array{all_of(Shape{})}), "");
  EXPECT_TRUE(
      contains(tiling_problem({}, std::array{all_of(Shape{}), all_of(Shape{})}), "overlap"));
}

TEST(ManifestTest, SurvivesMutatedText) {
  std::mt19937 random(5);
  const std::string good = format_manifest(example());
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % text.size();
      const auto kind = random() % 3;
      kind == 0   ? (void)text.replace(at, 1, 1, static_cast<char>(random()))
      : kind == 1 ? (void)text.erase(at, random() % 8)
                  : (void)text.insert(at, text.substr(random() % text.size(), random() % 60));
    }
    const size_t digits = text.find("manifest_xxh3_64\": \"");
    if (digits != std::string::npos && digits + 36 <= text.size()) {
      text.replace(digits + 20, 16, std::string(16, '0'));
      text.replace(digits + 20, 16, checksum_text(checksum_of(std::as_bytes(std::span(text)))));
    }
    const Result<Manifest> manifest = parse_manifest(text, "manifest.json");
    if (manifest) {
      EXPECT_TRUE(parse_manifest(format_manifest(*manifest), "again"));
    }
  }
}

}  // namespace
}  // namespace cadre
