#include "model/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace cadre::model {
namespace {

using Kind = RopeScaling::Kind;

double linear_mix(double from, double to, double share) {
  return from + (to - from) * share;
}

// base^(-2i/D) for i in [0, D/2)
std::vector<double> plain_frequencies(double base, int64_t head_dim) {
  std::vector<double> frequencies;
  for (int64_t channel = 0; channel < head_dim; channel += 2) {
    frequencies.push_back(
        std::pow(base, -static_cast<double>(channel) / static_cast<double>(head_dim)));
  }
  return frequencies;
}

// "NTK-aware", by the length: base' = base (factor L / L0 - (factor - 1))^(D / (D - 2)), where
// L = max(sequence_length, L0)
double dynamic_base(const ModelSpec& spec, int64_t sequence_length) {
  const auto pretrained = static_cast<double>(spec.max_position_embeddings);
  const double length = std::max(static_cast<double>(sequence_length), pretrained);
  const auto head_dim = static_cast<double>(spec.head_dim);
  const double factor = spec.rope_scaling.factor;
  return spec.rope_theta *
         std::pow(factor * length / pretrained - (factor - 1.0), head_dim / (head_dim - 2.0));
}

// Long waves are stretched, short ones stay, and between the two bounds the frequencies are mixed.
void scale_llama3(const RopeScaling& scaling, std::vector<double>& frequencies) {
  const auto length = static_cast<double>(scaling.original_max_position_embeddings);
  for (double& frequency : frequencies) {
    const double turns = length * frequency / (2.0 * std::numbers::pi);  // length / wavelength
    const double smooth =
        (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
    frequency = linear_mix(frequency / scaling.factor, frequency, std::clamp(smooth, 0.0, 1.0));
  }
}

// The pair of channels that turns `rotations` times within the length of pre-training.
double yarn_pair(const ModelSpec& spec, double rotations) {
  const auto length = static_cast<double>(spec.rope_scaling.original_max_position_embeddings);
  return static_cast<double>(spec.head_dim) *
         std::log(length / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(spec.rope_theta));
}

// Pairs below `low` keep their frequency, those above `high` are stretched, with a ramp between.
void scale_yarn(const ModelSpec& spec, std::vector<double>& frequencies) {
  const RopeScaling& scaling = spec.rope_scaling;
  double low = yarn_pair(spec, scaling.beta_fast);
  double high = yarn_pair(spec, scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.head_dim - 1));
  if (low == high) {
    high += 0.001;  // transformers' way around a division by zero
  }
  for (size_t pair = 0; pair < frequencies.size(); ++pair) {
    const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
    frequencies[pair] = linear_mix(frequencies[pair], frequencies[pair] / scaling.factor, ramp);
  }
}

// What multiplies cosine and sine.
double yarn_attention_factor(const RopeScaling& scaling) {
  if (scaling.attention_factor) {
    return *scaling.attention_factor;
  }
  const auto magnitude = [&](double mscale) {
    return scaling.factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scaling.factor) + 1.0;
  };
  // A zero counts as not given, as it does for transformers.
  if (scaling.mscale.value_or(0.0) != 0.0 && scaling.mscale_all_dim.value_or(0.0) != 0.0) {
    return magnitude(*scaling.mscale) / magnitude(*scaling.mscale_all_dim);
  }
  return magnitude(1.0);
}

std::vector<double> scaled_frequencies(const ModelSpec& spec, int64_t sequence_length) {
  const bool dynamic = spec.rope_scaling.kind == Kind::kDynamic;
  std::vector<double> frequencies = plain_frequencies(
      dynamic ? dynamic_base(spec, sequence_length) : spec.rope_theta, spec.head_dim);
  switch (spec.rope_scaling.kind) {
    case Kind::kNone:
    case Kind::kDynamic:
      break;
    case Kind::kLinear:
      for (double& frequency : frequencies) {
        frequency /= spec.rope_scaling.factor;
      }
      break;
    case Kind::kLlama3:
      scale_llama3(spec.rope_scaling, frequencies);
      break;
    case Kind::kYarn:
      scale_yarn(spec, frequencies);
      break;
  }
  return frequencies;
}

}  // namespace

std::vector<float> rotary_table(const ModelSpec& spec, int64_t positions, int64_t sequence_length) {
  CADRE_CHECK(spec.head_dim > 0 && spec.head_dim % 2 == 0, spec.head_dim);
  const std::vector<double> frequencies = scaled_frequencies(spec, sequence_length);
  const double magnitude =
      spec.rope_scaling.kind == Kind::kYarn ? yarn_attention_factor(spec.rope_scaling) : 1.0;
  const size_t pairs = frequencies.size();
  std::vector<float> table(static_cast<size_t>(positions) * 2 * pairs);
  for (size_t position = 0; position < static_cast<size_t>(positions); ++position) {
    float* row = &table[position * 2 * pairs];
    for (size_t pair = 0; pair < pairs; ++pair) {
      const double angle = static_cast<double>(position) * frequencies[pair];
      row[pair] = static_cast<float>(magnitude * std::cos(angle));
      row[pairs + pair] = static_cast<float>(magnitude * std::sin(angle));
    }
  }
  return table;
}

}  // namespace cadre::model
