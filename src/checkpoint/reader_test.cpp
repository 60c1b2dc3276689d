#include "checkpoint/reader.h"

#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "checkpoint/model_index.h"
#include "checkpoint/small_checkpoint_test.h"
#include "storage/safe_writer.h"
#include "testing/temporary_folder.h"

namespace cadre {
namespace {

using testing::TemporaryFolder;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::vector<WantedTensor> wanted(const SmallModel::Named& tensors, std::vector<HeldTensor>& into,
                                 DType dtype = DType::kF32) {
  std::vector<WantedTensor> result;
  for (const auto& [name, tensor] : tensors) {
    into.emplace_back(dtype, tensor.view().shape);
    result.push_back(wanted_whole(name, into.back().view()));
  }
  return result;
}

void expect_equal(const SmallModel::Named& tensors, const std::vector<HeldTensor>& loaded) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(tensors[i].second.bytes(), loaded[i].bytes()) << tensors[i].first;
  }
}

class CheckpointReaderTest : public ::testing::Test {
 protected:
  std::string refusal(const std::filesystem::path& model) {
    const Result<CheckpointReader> reader = CheckpointReader::open_model(model);
    if (reader) {
      return "";
    }
    EXPECT_EQ(reader.error().kind, ErrorKind::kInput);
    return reader.error().message;
  }

  void rewrite(const std::filesystem::path& path, const std::string& from, const std::string& to) {
    std::string text = *read_file(path);
    ASSERT_TRUE(contains(text, from)) << text;
    text.replace(text.find(from), from.size(), to);
    ASSERT_TRUE(write_file(path, text));
  }

  TemporaryFolder folder;
  SmallModel small;
};

// Web tools put a manifest.json of their own beside a model.
TEST_F(CheckpointReaderTest, PassesOverAManifestThatIsNotOurs) {
  ASSERT_TRUE(save_model_folder(folder / "m", small.contents(DType::kF32)));
  ASSERT_TRUE(write_file(folder / "m" / kManifestName, R"({"name": "app", "icons": []})"));
  EXPECT_EQ(refusal(folder / "m"), "");
  ASSERT_TRUE(write_file(folder / "m" / kManifestName, R"({"format": "cadre checkpoint")"));
  EXPECT_TRUE(contains(refusal(folder / "m"), "manifest.json"));
}

TEST_F(CheckpointReaderTest, LoadsAModelFolderOfOneFile) {
  ASSERT_TRUE(save_model_folder(folder / "m", small.contents(DType::kF32)));
  EXPECT_EQ(*list_folder(folder / "m"),
            (std::vector<std::string>{"config.json", "model.safetensors", "tokenizer.json"}));
  const Result<CheckpointReader> reader = CheckpointReader::open_model(folder / "m");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->tensors().size(), 3u);
  EXPECT_EQ(reader->find("model.norm.weight")->shape, std::vector<int64_t>{24});
  std::vector<HeldTensor> loaded;
  ASSERT_TRUE(reader->load(wanted(small.model, loaded)));
  expect_equal(small.model, loaded);
  EXPECT_EQ((*read_model_config(folder / "m"))["hidden_size"], 24);
}

TEST_F(CheckpointReaderTest, LoadsAModelFolderOfSeveralFilesByItsIndex) {
  ASSERT_TRUE(
      save_model_folder(folder / "m", small.contents(DType::kF32), {.shard_bytes_max = 4900}));
  EXPECT_EQ(*list_folder(folder / "m"),
            (std::vector<std::string>{"config.json", "model-00001-of-00002.safetensors",
                                      "model-00002-of-00002.safetensors",
                                      "model.safetensors.index.json", "tokenizer.json"}));
  // The bytes of transformers' own index: total_size counts elements, weight_map names files.
  EXPECT_EQ(*read_file(folder / "m/model.safetensors.index.json"), R"({
  "metadata": {
    "total_size": 8448
  },
  "weight_map": {
    "model.embed_tokens.weight": "model-00001-of-00002.safetensors",
    "model.layers.0.mlp.down_proj.weight": "model-00002-of-00002.safetensors",
    "model.norm.weight": "model-00002-of-00002.safetensors"
  }
}
)");
  const Result<CheckpointReader> reader = CheckpointReader::open_model(folder / "m");
  ASSERT_TRUE(reader) << reader.error().message;
  std::vector<HeldTensor> loaded;
  ASSERT_TRUE(reader->load(wanted(small.model, loaded)));
  expect_equal(small.model, loaded);
}

TEST_F(CheckpointReaderTest, NamesAllThatDoesNotFitInOneMessageAndCopiesNothing) {
  ASSERT_TRUE(save_model_folder(folder / "m", small.contents()));
  const Result<CheckpointReader> reader = CheckpointReader::open_model(folder / "m");
  HeldTensor norm(DType::kF32, {24});
  HeldTensor transposed(DType::kF32, {50, 24});
  HeldTensor absent(DType::kF32, {3});
  const std::vector<WantedTensor> tensors = {
      wanted_whole("model.norm.weight", norm.view()),
      wanted_whole("model.layers.0.mlp.down_proj.weight", transposed.view()),
      wanted_whole("lm_head.weight", absent.view())};
  const Status status = reader->load(tensors);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kInput);
  EXPECT_TRUE(contains(status.error().message,
                       "1 tensor missing: \"lm_head.weight\"; 1 tensor left over, which the model "
                       "has no place for: \"model.embed_tokens.weight\"; 1 tensor of another shape "
                       "than the model's: \"model.layers.0.mlp.down_proj.weight\" [24, 50] instead "
                       "of [50, 24]"))
      << status.error().message;
  EXPECT_EQ(norm.view().flat<float>()[0], 0.0f);
}

TEST_F(CheckpointReaderTest, LeavesOverWhatTheCallerAllows) {
  ASSERT_TRUE(save_model_folder(folder / "m", small.contents()));
  const Result<CheckpointReader> reader = CheckpointReader::open_model(folder / "m");
  HeldTensor norm(DType::kF32, {24});
  const std::vector<WantedTensor> tensors = {wanted_whole("model.norm.weight", norm.view())};
  EXPECT_FALSE(reader->load(tensors, {.may_be_left_over = {"*.embed_tokens.weight"}}));
  EXPECT_TRUE(reader->load(tensors, {.may_be_left_over = {"*.embed_tokens.weight", "*.mlp.*"}}));
  EXPECT_NE(norm.view().flat<float>()[0], 0.0f);
}

TEST_F(CheckpointReaderTest, RefusesTensorsOfOtherTypesOnlyIfTheyAreWanted) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("ids":{"dtype":"I64","shape":[1],"data_offsets":[4,12]},)"
                             R"("mask":{"dtype":"U8","shape":[2,1,1,1,2],"data_offsets":[12,16]}})";
  std::string text(8, '\0');
  text[0] = static_cast<char>(header.size());
  ASSERT_LT(header.size(), 256u);
  ASSERT_TRUE(make_folder(folder / "m"));
  ASSERT_TRUE(write_file(folder / "m/model.safetensors", text + header + std::string(16, '\0')));
  const Result<CheckpointReader> reader = CheckpointReader::open_model(folder / "m");
  ASSERT_TRUE(reader) << reader.error().message;
  HeldTensor one(DType::kF32, {1});
  const std::vector<WantedTensor> w = {wanted_whole("w", one.view())};
  EXPECT_TRUE(contains(reader->load(w).error().message, "\"ids\", \"mask\""));
  EXPECT_TRUE(reader->load(w, {.may_be_left_over = {"ids", "mask"}}));
  const std::vector<WantedTensor> ids = {wanted_whole("ids", one.view())};
  EXPECT_TRUE(contains(reader->load(ids, {.may_be_left_over = {"w", "mask"}}).error().message,
                       "of a type that is not F32, BF16 or F16: \"ids\" I64"));
}

TEST_F(CheckpointReaderTest, SaysWhatAFolderLacksToBeAModel) {
  EXPECT_TRUE(contains(refusal(folder.path()),
                       "neither model.safetensors nor model.safetensors.index.json"));
  ASSERT_TRUE(write_file(folder / "pytorch_model.bin", ""));
  EXPECT_TRUE(contains(refusal(folder.path()), "save_pretrained"));
  EXPECT_TRUE(contains(refusal(folder / "none"), "is no model folder"));
}

TEST_F(CheckpointReaderTest, RefusesAnIndexThatNamesWhatIsNotThere) {
  const auto index_of = [this](const std::string& map) {
    EXPECT_TRUE(write_file(folder / "m/model.safetensors.index.json", map));
    return refusal(folder / "m");
  };
  ASSERT_TRUE(save_model_folder(folder / "m", small.contents()));
  std::filesystem::rename(folder / "m/model.safetensors", folder / "m/a.safetensors");
  std::filesystem::copy(folder / "m/a.safetensors", folder / "outside.safetensors");
  const std::string norm = R"({"weight_map": {"model.norm.weight": ")";
  EXPECT_EQ(
      index_of(norm + R"(a.safetensors"}, "metadata": {"x": [{}, null, {"weight_map": {}}]}})"),
      "");
  EXPECT_TRUE(contains(index_of(norm + R"(b.safetensors"}})"), "\"b.safetensors\": cannot open"));
  EXPECT_TRUE(contains(index_of(norm + R"(../outside.safetensors"}})"), "not the name of a file"));
  EXPECT_TRUE(contains(index_of(norm + R"("}})"), "not the name of a file"));
  EXPECT_TRUE(contains(index_of(norm + R"(.."}})"), "not the name of a file"));
  EXPECT_TRUE(contains(index_of(R"({"weight_map": {"w": "a.safetensors"}})"),
                       "tensor \"w\" is in \"a.safetensors\", which does not have it"));
  EXPECT_TRUE(contains(index_of(R"({"weight_map": {"w": 3}})"), "tensor \"w\" has no file name"));
  EXPECT_TRUE(
      contains(index_of(R"({"weight_map": {"w": ["a"]}})"), "tensor \"w\" has no file name"));
  EXPECT_TRUE(contains(index_of(R"({"weight_map": {"w": {}}})"), "has an object"));
  EXPECT_TRUE(contains(index_of(R"({"weight_map": {"w": "a", "w": "a"}})"), "named twice"));
  EXPECT_TRUE(contains(index_of(R"({"weight_map": {}, "weight_map": {}})"), "stands twice"));
  EXPECT_TRUE(contains(index_of(R"({"metadata": {}})"), "no \"weight_map\""));
  EXPECT_TRUE(contains(index_of("[]"), "no \"weight_map\""));
  EXPECT_TRUE(contains(index_of("{"), "not JSON at byte"));
  EXPECT_TRUE(contains(index_of("\xFF"), "not valid UTF-8 at byte 0"));
}

TEST_F(CheckpointReaderTest, FindsTensorsThatTheIndexForgot) {
  ASSERT_TRUE(save_model_folder(folder / "m", small.contents(), {.shard_bytes_max = 2448}));
  rewrite(folder / "m/model.safetensors.index.json",
          ",\n    \"model.norm.weight\": \"model-00002-of-00002.safetensors\"", "");
  const Result<CheckpointReader> reader = CheckpointReader::open_model(folder / "m");
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_NE(reader->find("model.norm.weight"), nullptr);
}

// What several processes will save: rows of one tensor in several files; and any box is loaded from
// it.
TEST_F(CheckpointReaderTest, LoadsAnyBoxFromPiecesSavedByAnyLayout) {
  const HeldTensor whole = counting({10, 6});
  CheckpointContents contents{.config = Json::object()};
  const auto add_piece = [&](const Box& box) {
    contents.model.push_back({.name = "w",
                              .dtype = DType::kF32,
                              .whole = {10, 6},
                              .box = box,
                              .data = whole.view().slice(box)});
  };
  add_piece({.first = {7, 0}, .size = {3, 6}});
  add_piece({.first = {0, 0}, .size = {4, 6}});
  add_piece({.first = {4, 0}, .size = {3, 2}});
  add_piece({.first = {4, 2}, .size = {3, 4}});
  const Result<SavedCheckpoint> saved =
      save_checkpoint(folder.path(), 3, contents, {.shard_bytes_max = 100});
  ASSERT_TRUE(saved) << saved.error().message;
  const Result<CheckpointReader> reader = CheckpointReader::open_model(saved->path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_EQ(reader->find("w")->pieces.size(), 4u);
  for (int64_t row = 0; row < 10; ++row) {
    for (int64_t column = 0; column < 6; ++column) {
      for (const Box& box : {Box{.first = {row, 0}, .size = {10 - row, 6}},
                             Box{.first = {0, column}, .size = {row + 1, 6 - column}}}) {
        HeldTensor part(DType::kF32, box.size);
        const std::vector<WantedTensor> want = {
            {.name = "w", .whole = {10, 6}, .box = box, .destination = part.view()}};
        ASSERT_TRUE(reader->load(want));
        for (int64_t i = 0; i < box.size[0]; ++i) {
          const auto expected = whole.view().row<float>(box.first[0] + i);
          const auto first = static_cast<size_t>(box.first[1]);
          ASSERT_TRUE(std::ranges::equal(part.view().row<float>(i), expected.subspan(first)));
        }
      }
    }
  }
}

TEST_F(CheckpointReaderTest, RefusesACheckpointWithoutOptimizerState) {
  CheckpointContents contents = small.contents();
  contents.optimizer.clear();
  const Result<SavedCheckpoint> saved = save_checkpoint(folder.path(), 3, contents);
  ASSERT_TRUE(saved);
  EXPECT_TRUE(CheckpointReader::open_model(saved->path));
  const Result<CheckpointReader> reader = CheckpointReader::open_optimizer(saved->path);
  ASSERT_FALSE(reader);
  EXPECT_TRUE(contains(reader.error().message, "saved without the optimizer's state"));
}

TEST_F(CheckpointReaderTest, RefusesFilesThatDisagreeWithTheManifest) {
  const Result<SavedCheckpoint> saved = save_checkpoint(folder.path(), 3, small.contents());
  Manifest manifest = *read_manifest(saved->path);
  manifest.model[2].shape = {12};
  manifest.model[2].pieces[0].box = all_of({12});
  ASSERT_TRUE(write_file(saved->path / kManifestName, format_manifest(manifest)));
  EXPECT_TRUE(contains(refusal(saved->path), "of another type or shape is \"model.norm.weight\""));
  manifest.model[2].pieces[0].entry = "other";
  ASSERT_TRUE(write_file(saved->path / kManifestName, format_manifest(manifest)));
  EXPECT_TRUE(contains(refusal(saved->path), "lacks \"other\""));
}

}  // namespace
}  // namespace cadre
