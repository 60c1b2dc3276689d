#include "base/text.h"

#include <gtest/gtest.h>

namespace cadre {
namespace {

TEST(Text, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(nearest("learning_rat", {"weight_decay", "learning_rate"}), "learning_rate");
  EXPECT_EQ(nearest("stesp", {"steps", "seed"}), "steps");  // a swap is one mistake
  EXPECT_EQ(nearest("banana", {"weight_decay", "learning_rate"}), "");
}

TEST(Text, ListsWords) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
}

TEST(Text, MatchesGlobsWhole) {
  EXPECT_TRUE(matches_glob("*.norm.weight", "model.norm.weight"));
  EXPECT_TRUE(matches_glob("model.layers.?.*proj*", "model.layers.3.mlp.up_proj.weight"));
  EXPECT_FALSE(matches_glob("model.layers.?.mlp", "model.layers.13.mlp"));
  EXPECT_FALSE(matches_glob("norm", "model.norm"));
  EXPECT_TRUE(matches_glob("a*b*c", "aXbYbZc"));
}

TEST(Text, PrintsQuantities) {
  EXPECT_EQ(readable_bytes(640), "640 B");
  EXPECT_EQ(readable_bytes(int64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(readable_seconds(8.44), "8.4 s");
  EXPECT_EQ(readable_seconds(192), "3 min 12 s");
  EXPECT_EQ(readable_seconds(7500), "2 h 05 min");
}

TEST(Text, FindsTheFirstMalformedSequence) {
  EXPECT_EQ(find_invalid_utf8("plain, \xC3\xA9, \xE2\x82\xAC, \xF0\x9F\x98\x80"),
            std::string::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xC0\x80"), 2u);         // overlong
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u);       // surrogate
  EXPECT_EQ(find_invalid_utf8("a\xF4\x90\x80\x80"), 1u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("abc\xE2\x82"), 3u);        // cut off
}

}  // namespace
}  // namespace cadre
