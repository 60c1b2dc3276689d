#include "model/family_rope.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"

namespace cadre::model {
namespace {

using Kind = RopeScaling::Kind;

constexpr double kThetaMax = 1e15;
constexpr double kFactorMax = 1e6;
constexpr int64_t kPositionsMax = std::numeric_limits<int32_t>::max();

struct NamedKind {
  std::string_view name;
  Kind kind;
};
constexpr std::array<NamedKind, 5> kKinds = {{{"default", Kind::kNone},
                                              {"linear", Kind::kLinear},
                                              {"dynamic", Kind::kDynamic},
                                              {"llama3", Kind::kLlama3},
                                              {"yarn", Kind::kYarn}}};

void read_kind(ConfigReader& rope, RopeScaling& scaling) {
  // "type" is what versions before 4.43 wrote; with both, transformers goes by rope_type.
  const std::string old_name = rope.text("type", "default");
  const std::string name = rope.text("rope_type", old_name);
  const auto* const found = std::find_if(kKinds.begin(), kKinds.end(),
                                         [&](const NamedKind& kind) { return kind.name == name; });
  if (found == kKinds.end()) {
    std::vector<std::string_view> names;
    for (const NamedKind& kind : kKinds) {
      names.push_back(kind.name);
    }
    rope.refuse(rope.find("rope_type") != nullptr ? "rope_type" : "type",
                concat("allowed are ", listed(names)));
    return;
  }
  scaling.kind = found->kind;
}

void require(ConfigReader& rope, std::string_view key) {
  if (rope.find(key) == nullptr) {
    rope.refuse(key, "this kind of scaling needs a number here");
  }
}

// beta_fast and its like: transformers takes 0 for "not given" too.
double or_default(std::optional<double> value, double fallback) {
  return value.value_or(0.0) == 0.0 ? fallback : *value;
}

void read_yarn(ConfigReader& rope, const ModelSpec& spec, RopeScaling& scaling) {
  scaling.beta_fast = or_default(rope.optional_number("beta_fast", 0.0, kFactorMax), 32.0);
  scaling.beta_slow = or_default(rope.optional_number("beta_slow", 0.0, kFactorMax), 1.0);
  scaling.truncate = rope.boolean("truncate", true);
  scaling.attention_factor = rope.optional_number("attention_factor", 0.0, kFactorMax);
  scaling.mscale = rope.optional_number("mscale", 0.0, kFactorMax);
  scaling.mscale_all_dim = rope.optional_number("mscale_all_dim", 0.0, kFactorMax);
  if (spec.rope_theta == 1.0) {
    rope.complain("rope_theta: found 1, yarn divides by its logarithm");
  }
}

void read_llama3(ConfigReader& rope, RopeScaling& scaling) {
  require(rope, "low_freq_factor");
  require(rope, "high_freq_factor");
  scaling.low_freq_factor = rope.number("low_freq_factor", 1.0, 1e-6, kFactorMax);
  scaling.high_freq_factor = rope.number("high_freq_factor", 4.0, 1e-6, kFactorMax);
  if (scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.refuse("high_freq_factor",
                concat("allowed is more than low_freq_factor, which is ", scaling.low_freq_factor));
  }
}

void read_factor(ConfigReader& rope, const ModelSpec& spec, RopeScaling& scaling) {
  if (scaling.kind == Kind::kYarn && rope.find("factor") == nullptr) {
    scaling.factor = static_cast<double>(spec.max_position_embeddings) /
                     static_cast<double>(scaling.original_max_position_embeddings);
    if (scaling.factor < 1.0) {
      rope.refuse("factor",
                  "max_position_embeddings / original_max_position_embeddings, which is "
                  "taken instead, is less than 1");
    }
    return;
  }
  require(rope, "factor");
  scaling.factor = rope.number("factor", 1.0, 1.0, kFactorMax);
}

// One object of parameters. `original` is config.json's own original_max_position_embeddings, which
// goes before the one inside.
void read_parameters(ConfigReader& rope, std::optional<int64_t> original, ModelSpec& spec) {
  spec.rope_theta = rope.number("rope_theta", spec.rope_theta, 1.0, kThetaMax);
  rope.only("partial_rotary_factor", 1.0, "rotation covers the whole head");
  rope.ignore({"finetuned"});  // yarn's authors note with it that the weights know the scaling
  RopeScaling scaling;
  read_kind(rope, scaling);
  if (rope.failed()) {
    return;  // what the other keys mean depends on the kind
  }
  const int64_t inside = rope.integer("original_max_position_embeddings",
                                      spec.max_position_embeddings, 1, kPositionsMax);
  if (scaling.kind == Kind::kLlama3 || scaling.kind == Kind::kYarn) {
    scaling.original_max_position_embeddings = original.value_or(inside);
  }
  if (scaling.kind == Kind::kNone) {
    rope.ignore({"factor"});
  } else {
    read_factor(rope, spec, scaling);
  }
  if (scaling.kind == Kind::kLlama3) {
    read_llama3(rope, scaling);
  }
  if (scaling.kind == Kind::kYarn) {
    read_yarn(rope, spec, scaling);
  }
  if (scaling.kind == Kind::kDynamic && spec.head_dim == 2) {
    rope.refuse("rope_type", "dynamic scaling needs a head_dim of 4 or more");
  }
  rope.refuse_unknown("this kind of rotary scaling");
  spec.rope_scaling = scaling;
}

// transformers 5 may write one object per kind of layer; all layers of ours turn alike.
const Json* same_for_all_layers(ConfigReader& reader, std::string_view key,
                                const Json& parameters) {
  const bool nested =
      !parameters.empty() && std::all_of(parameters.begin(), parameters.end(),
                                         [](const Json& v) { return v.is_object(); });
  if (!nested) {
    return &parameters;
  }
  for (const Json& one : parameters) {
    if (one != parameters.front()) {
      reader.refuse(key, "all kinds of layer must have the same parameters");
      return nullptr;
    }
  }
  return &parameters.front();
}

}  // namespace

void read_rope(ConfigReader& reader, std::string_view source, ModelSpec& spec) {
  spec.rope_theta = reader.number("rope_theta", 10000.0, 1.0, kThetaMax);
  const auto original =
      reader.optional_integer("original_max_position_embeddings", 1, kPositionsMax);
  const Json* scaling = reader.find("rope_scaling");
  const Json* parameters = reader.find("rope_parameters");
  if (scaling != nullptr && parameters != nullptr && *scaling != *parameters) {
    reader.refuse("rope_parameters", "rope_scaling says otherwise; remove one of the two");
    return;
  }
  const std::string_view key = scaling != nullptr ? "rope_scaling" : "rope_parameters";
  const Json* given = scaling != nullptr ? scaling : parameters;
  if (given == nullptr) {
    return;
  }
  if (!given->is_object()) {
    reader.refuse(key, "allowed are null and an object");
    return;
  }
  given = same_for_all_layers(reader, key, *given);
  if (given != nullptr && !given->empty()) {
    ConfigReader rope(*given, source, concat(key, "."));
    read_parameters(rope, original, spec);
    reader.take_problems(rope);
  }
}

void write_rope(const ModelSpec& spec, Json& config) {
  config["rope_theta"] = spec.rope_theta;
  const RopeScaling& scaling = spec.rope_scaling;
  if (scaling.kind == Kind::kNone) {
    config["rope_scaling"] = nullptr;
    return;
  }
  Json rope;
  for (const NamedKind& kind : kKinds) {
    if (kind.kind == scaling.kind) {
      rope["rope_type"] = kind.name;
    }
  }
  rope["factor"] = scaling.factor;
  if (scaling.kind == Kind::kLlama3) {
    rope["low_freq_factor"] = scaling.low_freq_factor;
    rope["high_freq_factor"] = scaling.high_freq_factor;
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
  }
  if (scaling.kind == Kind::kYarn) {
    rope["original_max_position_embeddings"] = scaling.original_max_position_embeddings;
    rope["beta_fast"] = scaling.beta_fast;
    rope["beta_slow"] = scaling.beta_slow;
    rope["truncate"] = scaling.truncate;
    if (scaling.attention_factor) {
      rope["attention_factor"] = *scaling.attention_factor;
    }
    if (scaling.mscale) {
      rope["mscale"] = *scaling.mscale;
    }
    if (scaling.mscale_all_dim) {
      rope["mscale_all_dim"] = *scaling.mscale_all_dim;
    }
  }
  config["rope_scaling"] = rope;
}

}  // namespace cadre::model
