// What is wrong with a safetensors file is refused by name.

#include <gtest/gtest.h>

#include <random>

#include "checkpoint/safetensors.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

std::string file_with(const std::string& header, size_t data_bytes) {
  std::string text(8, '\0');
  for (size_t i = 0; i < 8; ++i) {
    text[i] = static_cast<char>(header.size() >> (8 * i) & 0xFFu);
  }
  return text + header + std::string(data_bytes, 'x');
}

// The message without the file's name, or "" if the file is accepted.
std::string refusal_of(const std::string& text) {
  const Result<SafetensorsHeader> header =
      parse_safetensors_header(text, std::ssize(text), "m.safetensors");
  if (header) {
    return "";
  }
  EXPECT_EQ(header.error().kind, ErrorKind::kInput);
  const std::string& message = header.error().message;
  EXPECT_TRUE(message.starts_with("\"m.safetensors\": ")) << message;
  return message.substr(std::min<size_t>(message.size(), 17));
}

std::string refusal(const std::string& header, size_t data_bytes = 8) {
  return refusal_of(file_with(header, data_bytes));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const std::string kGood =
    R"({"__metadata__":{"by":"hand"},"b":{"dtype":"F16","shape":[1,2],"data_offsets":[4,8]},)"
    R"("a":{"shape":[1],"data_offsets":[0,4],"dtype":"F32"},"z":{"dtype":"U8","shape":[3,0],)"
    R"("data_offsets":[4,4]}}   )";

TEST(SafetensorsHeaderTest, SortsByOffsetAndCountsFromTheFilesStart) {
  const std::string text = file_with(kGood, 8);
  const Result<SafetensorsHeader> header =
      parse_safetensors_header(text, std::ssize(text), "m.safetensors");
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 3u);
  const int64_t data = 8 + std::ssize(kGood);
  EXPECT_EQ(header->tensors[0],
            (StoredTensor{
                .name = "a", .type = StoredType::kF32, .shape = {1}, .offset = data, .bytes = 4}));
  EXPECT_EQ(header->tensors[1].name, "z");
  EXPECT_EQ(
      header->tensors[2],
      (StoredTensor{
          .name = "b", .type = StoredType::kF16, .shape = {1, 2}, .offset = data + 4, .bytes = 4}));
  EXPECT_EQ(header->metadata.at("by"), "hand");
  EXPECT_EQ(refusal("{}", 0), "");
}

TEST(SafetensorsHeaderTest, RefusesALengthThatCannotBe) {
  EXPECT_EQ(refusal_of(""), "0 bytes are no safetensors file");
  EXPECT_EQ(refusal_of("1234567"), "7 bytes are no safetensors file");
  EXPECT_TRUE(
      contains(refusal_of(file_with(kGood, 8).substr(0, 60)), "the whole file has 60 bytes"));
  EXPECT_TRUE(
      contains(refusal_of(std::string(30, '\xFF')), "header's length is 18446744073709551615"));
  // A file of 200 MB that is all header: refused by its length alone.
  std::string start = file_with("", 0);
  start[3] = 9;  // 9 * 2^24 bytes
  const Result<SafetensorsHeader> large = parse_safetensors_header(start, 200'000'000, "m");
  ASSERT_FALSE(large);
  EXPECT_TRUE(contains(large.error().message, "at most 100000000 are allowed"));
}

TEST(SafetensorsHeaderTest, RefusesWhatIsNotTheJsonOfAHeader) {
  EXPECT_EQ(refusal(""), "its header does not begin with {");
  EXPECT_EQ(refusal(" {}"), "its header does not begin with {");
  EXPECT_TRUE(contains(refusal("{\"a\":}"), "not JSON at byte 13 of the file"));
  EXPECT_TRUE(contains(refusal("{}{}"), "not JSON"));
  EXPECT_TRUE(contains(refusal("{\"a\xFF\":{}}"), "not valid UTF-8 at byte 11"));
  EXPECT_EQ(refusal(R"({"a":1})"), "its header has a number where an object is expected");
  EXPECT_EQ(refusal(R"({"a":[]})"), "its header has an array where an object is expected");
  EXPECT_EQ(refusal(R"({"__metadata__":{"k":1}})"), "tensor \"k\" has a number in its text");
  EXPECT_TRUE(contains(refusal("{\"a\":" + std::string(100000, '{')), "not JSON"));
  EXPECT_TRUE(
      contains(refusal("{\"a\":{\"shape\":" + std::string(100000, '[')), "an array in its shape"));
}

TEST(SafetensorsHeaderTest, RefusesAnEntryByTheTensorsName) {
  const auto entry = [](const std::string& fields) { return refusal("{\"w\":{" + fields + "}}"); };
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[2])"),
            "tensor \"w\" lacks one of dtype, shape and data_offsets");
  EXPECT_EQ(entry(R"("dtype":"F31","shape":[2],"data_offsets":[0,8])"),
            "tensor \"w\" has the unknown dtype \"F31\"");
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"device":"cpu")"),
            "tensor \"w\" has the unknown key \"device\"");
  EXPECT_EQ(entry(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"),
            "tensor \"w\" has dtype twice");
  EXPECT_EQ(entry(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
            "tensor \"w\" has a negative number in its shape");
  EXPECT_TRUE(
      contains(entry(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "in its shape"));
  EXPECT_TRUE(
      contains(entry(R"("dtype":"F32","shape":[18446744073709551616],"data_offsets":[0,8])"),
               "in its shape"));
  EXPECT_TRUE(contains(entry(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"),
                       "2^63 or more in its shape"));
  EXPECT_TRUE(contains(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "data_offsets"));
  EXPECT_TRUE(contains(entry(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "begin <= end"));
  EXPECT_TRUE(
      contains(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4,8])"), "more than two"));
}

TEST(SafetensorsHeaderTest, RefusesOffsetsThatDoNotFillTheDataExactly) {
  const auto two = [](const std::string& first, const std::string& second, size_t bytes = 8) {
    return refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + second + "}}",
                   bytes);
  };
  EXPECT_EQ(two("[0,4]", "[4,8]"), "");
  EXPECT_EQ(two("[4,8]", "[0,4]"), "");
  EXPECT_EQ(two("[0,4]", "[2,6]"),
            "tensor \"b\" begins at 2, inside the tensor before it, which ends at 4");
  EXPECT_EQ(two("[0,4]", "[0,4]"),
            "tensor \"b\" begins at 0, inside the tensor before it, which ends at 4");
  EXPECT_EQ(two("[0,4]", "[8,12]", 12), "tensor \"b\" begins at 8, which leaves a hole after 4");
  EXPECT_EQ(two("[0,4]", "[4,8]", 7),
            "tensor \"b\" ends at byte 8 of the data, which has 7; the file may be cut off");
  EXPECT_EQ(two("[0,4]", "[4,8]", 9), "1 bytes after the last tensor");
  EXPECT_EQ(two("[0,4]", "[4,9]", 9),
            "tensor \"b\" of type F32 and shape [1] needs 4 bytes, its data_offsets span 5");
  EXPECT_TRUE(contains(two("[0,4]", "[9223372036854775803,9223372036854775807]"), "leaves a hole"));
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
            "tensor \"a\" is named twice");
}

TEST(SafetensorsHeaderTest, RefusesShapesWhoseProductOverflows) {
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
      "tensor \"a\" has a shape that overflows: [4294967296, 4294967296]");
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0),
      "tensor \"a\" has a shape that overflows: [2305843009213693952]");
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0),
      "");
}

TEST(SafetensorsHeaderTest, ShowsOnlyTheStartOfAVeryLongName) {
  const std::string message = refusal("{\"" + std::string(1000000, 'n') + "\":{}}");
  EXPECT_LT(message.size(), 400u);
}

// A mutated file is accepted or refused; either way the process lives, soon.
TEST(SafetensorsHeaderTest, SurvivesMutatedFiles) {
  std::mt19937 random(11);
  const std::string good = file_with(kGood, 8);
  const std::array<std::string, 12> words = {"\"", "{",  "}",     "[",  "]",         ":",
                                             ",",  "-1", "1e999", "\\", "\"dtype\"", "99999999999"};
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = good;
    for (uint32_t change = 0; change <= random() % 4; ++change) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        case 2:
          text.insert(at, words[random() % words.size()]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
      text += text.empty() ? "x" : "";
    }
    const Result<SafetensorsHeader> header =
        parse_safetensors_header(text, std::ssize(text), "m.safetensors");
    refused += header ? 0 : 1;
  }
  EXPECT_GT(refused, 10000);
}

TEST(SafetensorsHeaderTest, OpensOnlyWholeFiles) {
  const testing::TemporaryFolder folder;
  const std::string good = file_with(kGood, 8);
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{8}, size_t{50}, good.size() - 1}) {
    ASSERT_TRUE(write_file(folder / "m", good.substr(0, bytes)));
    EXPECT_FALSE(SafetensorsFile::open(folder / "m")) << bytes;
  }
  ASSERT_TRUE(write_file(folder / "m", good));
  EXPECT_TRUE(SafetensorsFile::open(folder / "m"));
  EXPECT_FALSE(SafetensorsFile::open(folder / "none"));
}

}  // namespace
}  // namespace cadre
