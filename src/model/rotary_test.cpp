#include "model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/family.h"
#include "testing/golden.h"

namespace cadre::model {
namespace {

ModelSpec spec_of(int64_t head_dim, double theta) {
  ModelSpec spec;
  spec.head_dim = head_dim;
  spec.rope_theta = theta;
  spec.max_position_embeddings = 16;
  return spec;
}

TEST(Rotary, PutsCosinesBeforeSines) {
  // theta = 100, D = 4: the frequencies are 1 and 100^(-2/4) = 0.1.
  const std::vector<float> table = rotary_table(spec_of(4, 100.0), 3, 3);
  ASSERT_EQ(table.size(), 12u);
  const std::vector<double> wanted = {1.0,           1.0,           0.0,           0.0,
                                      std::cos(1.0), std::cos(0.1), std::sin(1.0), std::sin(0.1),
                                      std::cos(2.0), std::cos(0.2), std::sin(2.0), std::sin(0.2)};
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(table[i], static_cast<float>(wanted[i])) << i;
  }
}

TEST(Rotary, DividesFrequenciesForLinearScaling) {
  ModelSpec spec = spec_of(4, 100.0);
  spec.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = 4.0};
  const std::vector<float> table = rotary_table(spec, 2, 2);
  EXPECT_FLOAT_EQ(table[4], std::cos(0.25f));
  EXPECT_FLOAT_EQ(table[7], std::sin(0.025f));
}

TEST(Rotary, RaisesTheBaseForDynamicScalingOnlyBeyondPreTraining) {
  ModelSpec spec = spec_of(4, 100.0);
  const std::vector<float> plain = rotary_table(spec, 5, 16);
  spec.rope_scaling = {.kind = RopeScaling::Kind::kDynamic, .factor = 3.0};
  EXPECT_EQ(rotary_table(spec, 5, 16), plain);
  // 32 positions are twice 16: base = 100 (3 * 2 - 2)^(4 / 2) = 1600, so the second frequency is
  // 1 / 40.
  EXPECT_FLOAT_EQ(rotary_table(spec, 2, 32)[7], std::sin(0.025f));
}

TEST(Rotary, StretchesLongWavesForLlama3) {
  // L = 16 pi: the wave of pair i is 2 pi / f, so L / wave = 8 f = 8, 2.53, 0.8, 0.25.
  ModelSpec spec = spec_of(8, 100.0);
  spec.rope_scaling = {.kind = RopeScaling::Kind::kLlama3,
                       .factor = 5.0,
                       .original_max_position_embeddings = 50,  // 50 / (2 pi) = 7.9577
                       .low_freq_factor = 1.0,
                       .high_freq_factor = 4.0};
  const std::vector<float> table = rotary_table(spec, 2, 2);
  const double f = std::pow(100.0, -0.25);
  EXPECT_FLOAT_EQ(table[8 + 4], std::sin(1.0f));  // more than 4 waves fit: as it was
  const double smooth = (50.0 * f / 6.283185307179586 - 1.0) / 3.0;
  EXPECT_FLOAT_EQ(table[8 + 5],
                  static_cast<float>(std::sin((1.0 - smooth) * f / 5.0 + smooth * f)));
  EXPECT_FLOAT_EQ(table[8 + 6], std::sin(0.1f / 5.0f));  // less than 1 wave: stretched
}

TEST(Rotary, ScalesCosinesAndSinesByYarnsMagnitude) {
  ModelSpec spec = spec_of(8, 100.0);
  spec.rope_scaling = {
      .kind = RopeScaling::Kind::kYarn, .factor = 4.0, .original_max_position_embeddings = 16};
  // 0.1 ln(4) + 1
  EXPECT_FLOAT_EQ(rotary_table(spec, 1, 1)[0], 1.1386294361f);
  spec.rope_scaling.attention_factor = 0.5;
  EXPECT_FLOAT_EQ(rotary_table(spec, 1, 1)[0], 0.5f);
}

// tools/make_golden.py has the formulas of its own, and the configurations of known models.
TEST(Rotary, AgreesWithTablesComputedElsewhere) {
  const Json tables = testing::read_golden_file(CADRE_TEST_DATA "/rotary.json")["tables"];
  ASSERT_EQ(tables.size(), 11u);
  for (const Json& table : tables) {
    const auto spec = read_model_config(table["config"], "rotary.json");
    ASSERT_TRUE(spec.ok()) << spec.error().message;
    const auto frequencies = table["frequencies"].get<std::vector<double>>();
    const auto magnitude = table["magnitude"].get<double>();
    const std::vector<float> actual =
        rotary_table(*spec, 300, table["sequence_length"].get<int64_t>());
    ASSERT_EQ(actual.size(), 600 * frequencies.size());
    for (size_t position = 0; position < 300; ++position) {
      for (size_t pair = 0; pair < frequencies.size(); ++pair) {
        const double angle = static_cast<double>(position) * frequencies[pair];
        const float* row = &actual[position * 2 * frequencies.size()];
        ASSERT_NEAR(row[pair], magnitude * std::cos(angle), 2e-7) << table["name"];
        ASSERT_NEAR(row[frequencies.size() + pair], magnitude * std::sin(angle), 2e-7)
            << table["name"] << " position " << position << " pair " << pair;
      }
    }
  }
}

}  // namespace
}  // namespace cadre::model
