#include "train/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include "checkpoint/save.h"
#include "model/family.h"
#include "testing/golden.h"
#include "testing/temporary_folder.h"
#include "testing/test_support.h"
#include "train/rehearsal.h"

namespace cadre::train {
namespace {

using testing::Golden;

std::unique_ptr<Engine> make_engine(const Golden& golden) {
  EngineSpec spec{.model = model::read_model_config(golden.config, golden.name).value(),
                  .sequence_length = golden.sequence_length};
  spec.training.micro_batch_size = golden.sequences;
  const Device device{.kind = DeviceKind::kCpu, .target = detect_cpu_target()};
  return std::make_unique<Engine>(spec, device, 1,
                                  rehearse(spec, {.target = device.target}).ledger);
}

// What load_weights() makes of a folder with the golden's tensors, changed by `change` first.
Status load_changed(Engine& engine, const Golden& golden,
                    const std::function<void(Golden&)>& change) {
  const testing::TemporaryFolder folder;
  Golden stored = golden;
  change(stored);
  testing::write_golden_directory(stored, folder.path());
  return load_weights(engine, folder.path());
}

void expect_loads(const std::string& name, const std::function<void(Golden&)>& change) {
  const Golden golden = testing::load_golden(name);
  const std::unique_ptr<Engine> engine = make_engine(golden);
  const Status status = load_changed(*engine, golden, change);
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (const nn::Parameter& parameter : engine->store().parameters()) {
    const auto tensor =
        std::ranges::find(golden.weights, parameter.spec.name, &testing::GoldenTensor::name);
    ASSERT_NE(tensor, golden.weights.end()) << parameter.spec.name;
    EXPECT_EQ(testing::values_of(parameter.stored()), tensor->values) << parameter.spec.name;
  }
}

testing::GoldenTensor& tensor_of(Golden& golden, const std::string& name) {
  return *std::ranges::find(golden.weights, name, &testing::GoldenTensor::name);
}

TEST(Weights, LoadsAFolderOfEachKind) {
  for (const char* name : {"gqa", "gqa_tied", "gpt2", "qwen3", "llama_bias_tied"}) {
    SCOPED_TRACE(name);
    expect_loads(name, [](Golden&) {});
  }
}

// The hub's GPT-2: no prefix, no head, and the causal mask among the tensors.
TEST(Weights, LoadsGpt2AsTheHubHasIt) {
  expect_loads("gpt2", [](Golden& stored) {
    for (testing::GoldenTensor& tensor : stored.weights) {
      tensor.name = tensor.name.substr(std::string("transformer.").size());
    }
    stored.weights.push_back(
        {.name = "h.0.attn.bias", .shape = {1, 1, 2, 2}, .values = {1, 0, 1, 1}});
  });
}

// G7: the one matrix of a tied model is found under the name of either of its roles.
TEST(Weights, G7LoadsATiedModelWhoseMatrixIsStoredAsTheHead) {
  expect_loads("gqa_tied", [](Golden& stored) {
    tensor_of(stored, "model.embed_tokens.weight").name = "lm_head.weight";
  });
}

TEST(Weights, G7PassesOverTheHeadThatATiedModelWasSavedWith) {
  expect_loads("gqa_tied", [](Golden& stored) {
    testing::GoldenTensor head = tensor_of(stored, "model.embed_tokens.weight");
    head.name = "lm_head.weight";
    stored.weights.push_back(head);
  });
}

TEST(Weights, RefusesAnUntiedModelWithoutItsHead) {
  const Golden golden = testing::load_golden("gqa");
  const Status status = load_changed(*make_engine(golden), golden, [](Golden& stored) {
    tensor_of(stored, "lm_head.weight").name = "other.weight";
  });
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("lm_head.weight"), std::string::npos)
      << status.error().message;
}

// G5: training a tied model moves one tensor, and that one is saved, once.
TEST(Weights, G5TrainsAndSavesOneTensorForATiedHead) {
  const Golden golden = testing::load_golden("gqa_tied");
  const std::unique_ptr<Engine> engine = make_engine(golden);
  ASSERT_TRUE(load_changed(*engine, golden, [](Golden&) {}).ok());
  engine->step({.learning_rate = 1e-2}, [&](int64_t, const HostBatch& batch) {
    std::ranges::copy(golden.tokens, batch.tokens.begin());
    std::ranges::copy(golden.targets, batch.targets.begin());
    std::ranges::copy(golden.positions, batch.positions.begin());
  });
  std::set<std::string> names;
  for (const SavedTensor& tensor : model_tensors(*engine)) {
    EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    if (tensor.name == "model.embed_tokens.weight") {
      EXPECT_NE(testing::values_of(tensor.data), golden.weights.front().values);
    }
  }
  EXPECT_TRUE(names.contains("model.embed_tokens.weight"));
  EXPECT_FALSE(names.contains("lm_head.weight"));
}

// G3: what is written of a tied model has no head, in one file and in many, and is read again.
TEST(Weights, G3ATiedModelIsExportedWithoutAHead) {
  const Golden golden = testing::load_golden("gqa_tied");
  const std::unique_ptr<Engine> engine = make_engine(golden);
  ASSERT_TRUE(load_changed(*engine, golden, [](Golden&) {}).ok());
  CheckpointContents contents;
  contents.model = model_tensors(*engine);
  contents.config = model::write_model_config(engine->spec().model, "float32");
  EXPECT_EQ(contents.config["tie_word_embeddings"], true);
  for (const int64_t shard_bytes : {int64_t{1} << 30, int64_t{4096}}) {
    SCOPED_TRACE(shard_bytes);
    const testing::TemporaryFolder folder;
    const std::filesystem::path model = folder / "m";
    ASSERT_TRUE(save_model_folder(model, contents, {.shard_bytes_max = shard_bytes}).ok());
    const bool sharded = std::filesystem::exists(model / "model.safetensors.index.json");
    EXPECT_EQ(sharded, shard_bytes == 4096);
    int64_t elements = 0;
    for (const testing::GoldenTensor& tensor : golden.weights) {
      elements += static_cast<int64_t>(tensor.values.size());
    }
    if (sharded) {
      const Json index = testing::read_golden_file(model / "model.safetensors.index.json");
      EXPECT_FALSE(index["weight_map"].contains("lm_head.weight"));
      EXPECT_EQ(index["weight_map"].size(), golden.weights.size());
      EXPECT_EQ(index["metadata"]["total_size"], 4 * elements);
    }
    const Json config = testing::read_golden_file(model / "config.json");
    Golden again = golden;
    again.config = config;
    const std::unique_ptr<Engine> reader = make_engine(again);
    const Status status = load_weights(*reader, model);
    ASSERT_TRUE(status.ok()) << status.error().message;
    for (const nn::Parameter& parameter : reader->store().parameters()) {
      const auto tensor =
          std::ranges::find(golden.weights, parameter.spec.name, &testing::GoldenTensor::name);
      EXPECT_EQ(testing::values_of(parameter.stored()), tensor->values) << parameter.spec.name;
    }
  }
}

// G10: rows of the vocabulary are drawn one by one; none is a copy of another.
TEST(Weights, G10InitialisesEveryRowOfTheVocabularyByItself) {
  const Golden golden = testing::load_golden("gqa");
  const std::unique_ptr<Engine> engine = make_engine(golden);
  engine->store().initialize(engine->context(), 5);
  const nn::Parameter& table = engine->store().parameters().front();
  ASSERT_EQ(table.spec.name, "model.embed_tokens.weight");
  const std::vector<float> values = testing::values_of(table.stored());
  std::set<std::vector<float>> rows;
  double squares = 0.0;
  for (int64_t row = 0; row < 97; ++row) {
    const auto first = values.begin() + row * 64;
    EXPECT_TRUE(rows.emplace(first, first + 64).second) << row;
  }
  for (const float value : values) {
    squares += static_cast<double>(value) * value;
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 0.02, 0.001);
}

}  // namespace
}  // namespace cadre::train
