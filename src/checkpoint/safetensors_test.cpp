#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "checkpoint/held_tensor_test.h"
#include "storage/page_buffer.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::TemporaryFolder;

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsFile saved(std::span<const SavedTensor> tensors) {
    const std::vector<std::vector<SafetensorsEntry>> shards = plan_shards(tensors, 1 << 30);
    EXPECT_EQ(shards.size(), 1u);
    const Result<FileSummary> summary =
        write_safetensors(folder / "a.safetensors", shards[0], buffer.bytes());
    EXPECT_TRUE(summary) << summary.error().message;
    Result<SafetensorsFile> file = SafetensorsFile::open(folder / "a.safetensors");
    EXPECT_TRUE(file) << file.error().message;
    return std::move(*file);
  }

  HeldTensor read(const SafetensorsFile& file, std::string_view name, const Box& box,
                  DType dtype = DType::kF32) {
    HeldTensor result(dtype, box.size);
    const Status status = file.read(*file.find(name), box, result.view(), buffer.bytes());
    EXPECT_TRUE(status) << status.error().message;
    return result;
  }

  TemporaryFolder folder;
  PageBuffer buffer{65536};
};

TEST_F(SafetensorsTest, WritesTheBytesOfTheFormat) {
  const HeldTensor a = counting({2, 2});
  const HeldTensor b = counting({3});
  const std::array tensors = {whole_tensor("b", DType::kBf16, b.view()),
                              whole_tensor("a", DType::kF32, a.view())};
  saved(tensors);
  // The larger type first; the header padded so that the data start at a multiple of 64.
  std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]}})";
  header.resize(192 - 8, ' ');
  std::string expected = std::string("\xB8\0\0\0\0\0\0\0", 8) + header;
  expected += std::string("\0\0\0\x3F\0\0\xC0\x3F\0\0\x20\x40\0\0\x60\x40", 16);  // 0.5 1.5 2.5 3.5
  expected += std::string("\0\x3F\xC0\x3F\x20\x40", 6);
  EXPECT_EQ(*read_file(folder / "a.safetensors"), expected);
}

TEST_F(SafetensorsTest, ReadsBackWhatItWroteInAnyShape) {
  const HeldTensor scalar = counting({});
  const HeldTensor none = counting({0, 5});
  const HeldTensor four = counting({2, 3, 5, 7});
  const HeldTensor large = counting({301, 257});  // several buffers
  const std::array tensors = {whole_tensor("scalar", DType::kF32, scalar.view()),
                              whole_tensor("none", DType::kF32, none.view()),
                              whole_tensor("four", DType::kF32, four.view()),
                              whole_tensor("large \" \n \u00e9", DType::kF32, large.view())};
  const SafetensorsFile file = saved(tensors);
  EXPECT_EQ(file.tensors().size(), 4u);
  EXPECT_EQ(file.header().metadata.at("format"), "pt");
  EXPECT_EQ(file.find("nobody"), nullptr);
  for (const SavedTensor& tensor : tensors) {
    const HeldTensor back = read(file, tensor.name, all_of(tensor.whole));
    const ConstTensor from = tensor.data;
    EXPECT_TRUE(std::ranges::equal(back.view().flat<float>(), from.flat<float>())) << tensor.name;
  }
}

TEST_F(SafetensorsTest, WritesAndReadsStridedViews) {
  const HeldTensor a = counting({300, 211});
  const HeldTensor other = counting({2});
  // As GPT-2 stores its matrices: the transpose of what is computed with; and a part of a fused
  // one.
  const std::array tensors = {whole_tensor("t", DType::kF32, a.view().transposed()),
                              whole_tensor("part", DType::kF32, a.view().rows(7, 30).columns(3, 5)),
                              whole_tensor("other", DType::kF32, other.view())};
  const SafetensorsFile file = saved(tensors);
  const HeldTensor t = read(file, "t", all_of({211, 300}));
  EXPECT_EQ(t.view().row<float>(5)[7], a.view().row<float>(7)[5]);
  EXPECT_EQ(t.view().row<float>(210)[299], a.view().row<float>(299)[210]);
  const HeldTensor part = read(file, "part", all_of({30, 5}));
  EXPECT_EQ(part.view().row<float>(29)[4], a.view().row<float>(36)[7]);

  HeldTensor back(DType::kF32, {300, 211});
  ASSERT_TRUE(
      file.read(*file.find("t"), all_of({211, 300}), back.view().transposed(), buffer.bytes()));
  EXPECT_EQ(back.bytes(), a.bytes());
}

TEST_F(SafetensorsTest, ReadsBoxesOfEveryKind) {
  const HeldTensor a = counting({190, 401});
  const std::array tensors = {whole_tensor("first", DType::kF32, a.view().rows(0, 1)),
                              whole_tensor("a", DType::kF32, a.view())};
  const SafetensorsFile file = saved(tensors);
  for (const Box& box : {Box{.first = {3, 0}, .size = {150, 401}},    // rows
                         Box{.first = {0, 200}, .size = {190, 201}},  // columns
                         Box{.first = {189, 400}, .size = {1, 1}},    // the last element
                         Box{.first = {5, 7}, .size = {11, 1}},       // one column
                         Box{.first = {5, 7}, .size = {0, 4}}}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      HeldTensor expected(dtype, box.size);
      const HeldTensor part = read(file, "a", box, dtype);
      for (int64_t i = 0; i < box.size[0]; ++i) {
        for (int64_t j = 0; j < box.size[1]; ++j) {
          const float value =
              a.view().row<float>(box.first[0] + i)[static_cast<size_t>(box.first[1] + j)];
          if (dtype == DType::kF32) {
            ASSERT_EQ(part.view().row<float>(i)[static_cast<size_t>(j)], value);
          } else {
            ASSERT_EQ(part.view().row<Bf16>(i)[static_cast<size_t>(j)], from_float<Bf16>(value));
          }
        }
      }
    }
  }
}

TEST_F(SafetensorsTest, ConvertsBetweenAllFloatTypes) {
  // 1 + 2^-8 is halfway for bf16 (ties to even: 1), exact for f16; 1e-7 is subnormal in f16.
  const std::array values = {1.00390625f, -3.140625f, 1e-7f, 70000.0f, -0.0f};
  HeldTensor a(DType::kF32, {5});
  std::ranges::copy(values, a.view().flat<float>().begin());
  const std::array tensors = {whole_tensor("f32", DType::kF32, a.view()),
                              whole_tensor("bf16", DType::kBf16, a.view()),
                              whole_tensor("f16", DType::kF16, a.view())};
  const SafetensorsFile file = saved(tensors);
  EXPECT_EQ(file.find("bf16")->type, StoredType::kBf16);
  EXPECT_EQ(file.find("bf16")->bytes, 10);
  const auto floats = [&](std::string_view name) {
    const HeldTensor back = read(file, name, all_of({5}));
    const std::span<float> span = back.view().flat<float>();
    return std::vector<float>(span.begin(), span.end());
  };
  EXPECT_EQ(floats("f32"), std::vector<float>(values.begin(), values.end()));
  EXPECT_EQ(floats("bf16"), (std::vector<float>{1.0f, -3.140625f, 0x1.aep-24f, 70144.0f, -0.0f}));
  EXPECT_EQ(floats("f16"), (std::vector<float>{1.00390625f, -3.140625f, 0x1p-23f,
                                               std::numeric_limits<float>::infinity(), -0.0f}));
  const HeldTensor narrow = read(file, "f16", all_of({5}), DType::kBf16);
  EXPECT_EQ(narrow.view().flat<Bf16>()[1], from_float<Bf16>(-3.140625f));
  const HeldTensor same = read(file, "f16", all_of({5}), DType::kF16);
  EXPECT_EQ(same.view().flat<F16>()[0], from_float<F16>(1.00390625f));
}

TEST_F(SafetensorsTest, CutsShardsInOrderAndGivesALargeTensorItsOwn) {
  const HeldTensor small = counting({10});
  const HeldTensor large = counting({100});
  const std::array tensors = {
      whole_tensor("a", DType::kF32, small.view()), whole_tensor("b", DType::kF32, small.view()),
      whole_tensor("c", DType::kF32, large.view()), whole_tensor("d", DType::kBf16, small.view()),
      whole_tensor("e", DType::kF32, small.view())};
  const std::vector<std::vector<SafetensorsEntry>> shards = plan_shards(tensors, 80);
  ASSERT_EQ(shards.size(), 3u);
  EXPECT_EQ(shards[0].size(), 2u);
  EXPECT_EQ(shards[1][0].name, "c");
  EXPECT_EQ(shards[2][0].name, "e");
  EXPECT_EQ(shards[2][1].name, "d");
}

TEST_F(SafetensorsTest, NamesPiecesByTheirRanges) {
  const HeldTensor a = counting({2, 5});
  EXPECT_EQ(piece_name({.name = "a",
                        .dtype = DType::kF32,
                        .whole = {9, 5},
                        .box = {.first = {4, 0}, .size = {2, 5}},
                        .data = a.view()}),
            "a[4:6,0:5]");
}

TEST_F(SafetensorsTest, SaysThatAFileWasCutOffWhileItWasOpen) {
  const HeldTensor a = counting({100, 100});
  const std::array tensors = {whole_tensor("a", DType::kF32, a.view())};
  const SafetensorsFile file = saved(tensors);
  std::filesystem::resize_file(folder / "a.safetensors", 20000);
  HeldTensor back(DType::kBf16, {100, 100});
  const Status status =
      file.read(file.tensors()[0], all_of({100, 100}), back.view(), buffer.bytes());
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("ends at byte"), std::string::npos);
}

}  // namespace
}  // namespace cadre
