// The models of tests/data/golden: what their results must be, and their weights, drawn again from
// the generator that tools/make_golden.py drew them from.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "base/json.h"

namespace cadre::testing {

struct GoldenTensor {
  std::string name;  // of the Hugging Face tensor
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct Golden {
  std::string name;
  Json config;
  Json expected;
  std::vector<GoldenTensor> weights;
  bool stored_as_bf16 = false;  // the values are exact in bf16, and so are they stored
  int64_t sequences = 0;        // B
  int64_t sequence_length = 0;  // S
  bool has_documents = false;   // attention must not cross the starts
  std::vector<int32_t> tokens = {}, targets = {}, positions = {}, starts = {};  // [B, S]
};

inline Json read_golden_file(const std::string& path) {
  std::ifstream file(path);
  CADRE_CHECK(file.good(), "cannot read ", path);
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

// Every model that there is, in alphabetical order.
inline std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CADRE_TEST_DATA "/golden")) {
    if (entry.is_directory()) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

// s = 6364136223846793005 s + 1442695040888963407; the upper 24 bits make one value.
class GoldenGenerator {
 public:
  explicit GoldenGenerator(uint64_t seed) : state_(seed) {}

  // Uniform around 0 with this standard deviation.
  float next(double deviation) {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    const double unit = static_cast<double>(state_ >> 40) / 16777216.0;
    return static_cast<float>((unit - 0.5) * (deviation * std::sqrt(12.0)));
  }

 private:
  uint64_t state_;
};

inline std::vector<GoldenTensor> draw_golden_weights(const Json& recipe) {
  GoldenGenerator generator(recipe["seed"].get<uint64_t>());
  const bool as_bf16 = recipe["stored"] == "BF16";
  std::vector<GoldenTensor> tensors;
  for (const Json& one : recipe["tensors"]) {
    GoldenTensor tensor{.name = one["name"], .shape = one["shape"], .values = {}};
    size_t count = 1;
    for (const int64_t extent : tensor.shape) {
      count *= static_cast<size_t>(extent);
    }
    const auto deviation = one["deviation"].get<double>();
    const auto offset = one["offset"].get<float>();
    for (size_t i = 0; i < count; ++i) {
      const float value = offset + generator.next(deviation);
      tensor.values.push_back(as_bf16 ? to_float(from_float<Bf16>(value)) : value);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

inline Golden load_golden(const std::string& name) {
  const std::string folder = CADRE_TEST_DATA "/golden/" + name;
  const Json recipe = read_golden_file(folder + "/weights.json");
  const Json batch = read_golden_file(folder + "/tokens.json");
  const auto rows = batch["tokens"].get<std::vector<std::vector<int32_t>>>();
  Golden golden{.name = name,
                .config = read_golden_file(folder + "/config.json"),
                .expected = read_golden_file(folder + "/expected.json"),
                .weights = draw_golden_weights(recipe),
                .stored_as_bf16 = recipe["stored"] == "BF16",
                .sequences = static_cast<int64_t>(rows.size()),
                .sequence_length = static_cast<int64_t>(rows[0].size()) - 1,
                .has_documents = batch.contains("starts")};
  for (size_t row = 0; row < rows.size(); ++row) {
    for (size_t at = 0; at + 1 < rows[row].size(); ++at) {
      const auto given = [&](const char* key, int32_t otherwise) {
        return batch.contains(key) ? batch[key][row][at].get<int32_t>() : otherwise;
      };
      const int32_t start = given("starts", 0);
      golden.tokens.push_back(rows[row][at]);
      golden.targets.push_back(given("targets", rows[row][at + 1]));
      golden.starts.push_back(start);
      golden.positions.push_back(static_cast<int32_t>(at) - start);
    }
  }
  return golden;
}

// What `cadre probe --tokens` reads: {"tokens": [B][S], "targets": [B][S]}.
inline Json golden_tokens(const Golden& golden) {
  Json batch = {{"tokens", Json::array()}, {"targets", Json::array()}};
  const auto row = [&](const std::vector<int32_t>& all, int64_t sequence) {
    const auto first = all.begin() + sequence * golden.sequence_length;
    return std::vector<int32_t>(first, first + golden.sequence_length);
  };
  for (int64_t sequence = 0; sequence < golden.sequences; ++sequence) {
    batch["tokens"].push_back(row(golden.tokens, sequence));
    batch["targets"].push_back(row(golden.targets, sequence));
  }
  return batch;
}

// Writes config.json, model.safetensors and tokens.json into `folder`, which exists: a Hugging Face
// directory. The file is written here, byte by byte, so that readers are
// tested against another writer than cadre's own.
inline void write_golden_directory(const Golden& golden, const std::string& folder) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const GoldenTensor& tensor : golden.weights) {
    const size_t begin = data.size();
    for (const float value : tensor.values) {
      const Bf16 half = from_float<Bf16>(value);
      data.append(golden.stored_as_bf16 ? reinterpret_cast<const char*>(&half)
                                        : reinterpret_cast<const char*>(&value),
                  golden.stored_as_bf16 ? sizeof(half) : sizeof(value));
    }
    header[tensor.name] = {{"dtype", golden.stored_as_bf16 ? "BF16" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();  // little-endian, as this machine is
  std::ofstream file(folder + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << text << data;
  std::ofstream(folder + "/config.json") << golden.config.dump(1);
  std::ofstream(folder + "/tokens.json") << golden_tokens(golden).dump();
  CADRE_CHECK(file.good(), "cannot write to ", folder);
}

}  // namespace cadre::testing
