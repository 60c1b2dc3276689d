#include "model/family_config.h"

#include <cmath>
#include <functional>
#include <limits>

#include "base/text.h"

namespace cadre::model {
namespace {

// A value as a message shows it: long ones are cut.
std::string shown(const Json& value) {
  constexpr size_t kShownMax = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShownMax) {
    text = text.substr(0, kShownMax) + "...";
  }
  return text;
}

bool is_integer_between(const Json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) {
    return false;
  }
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return false;
  }
  const auto number = value.get<int64_t>();
  return number >= least && number <= most;
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string_view source, std::string_view inside)
    : object_(object), source_(source), inside_(inside) {
  CADRE_CHECK(object.is_object(), source, ": the caller looks at the kind of value first");
}

const Json* ConfigReader::find(std::string_view key) {
  known_.emplace(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> ConfigReader::optional_integer(std::string_view key, int64_t least,
                                                      int64_t most) {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (!is_integer_between(*value, least, most)) {
    refuse(key, concat("allowed is an integer from ", least, " to ", most));
    return std::nullopt;
  }
  return value->get<int64_t>();
}

int64_t ConfigReader::integer(std::string_view key, int64_t fallback, int64_t least, int64_t most) {
  return optional_integer(key, least, most).value_or(fallback);
}

std::optional<double> ConfigReader::optional_number(std::string_view key, double least,
                                                    double most) {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  // Written so that NaN is outside.
  if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
    refuse(key, concat("allowed is a number from ", least, " to ", most));
    return std::nullopt;
  }
  return value->get<double>();
}

double ConfigReader::number(std::string_view key, double fallback, double least, double most) {
  return optional_number(key, least, most).value_or(fallback);
}

bool ConfigReader::boolean(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) {
    return fallback;
  }
  if (!value->is_boolean()) {
    refuse(key, "allowed are true and false");
    return fallback;
  }
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) {
  const Json* value = find(key);
  if (value == nullptr) {
    return std::string(fallback);
  }
  if (!value->is_string()) {
    refuse(key, "allowed is a string");
    return std::string(fallback);
  }
  return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::integers(std::string_view key) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const Json* value = find(key);
  if (value == nullptr) {
    return {};
  }
  const Json list = value->is_array() ? *value : Json::array({*value});
  std::vector<int64_t> result;
  for (const Json& item : list) {
    if (!is_integer_between(item, 0, kMost)) {
      refuse(key, "allowed is an integer from 0 up, or a list of them");
      return {};
    }
    result.push_back(item.get<int64_t>());
  }
  return result;
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    known_.emplace(key);
  }
}

void ConfigReader::only(std::string_view key, const Json& value, std::string_view reason) {
  const Json* found = find(key);
  // Numbers compare by value (1 and 1.0 are one), all else by kind too.
  if (found != nullptr && *found != value) {
    refuse(key, concat("allowed is ", shown(value), ": ", reason));
  }
}

void ConfigReader::refuse(std::string_view key, std::string_view problem) {
  const auto found = object_.find(key);
  complain(concat(inside_, key, ": found ",
                  found == object_.end() ? std::string("nothing") : shown(*found), ", ", problem));
}

void ConfigReader::complain(const std::string& line) {
  problems_.push_back(concat(source_, ": ", line));
}

void ConfigReader::take_problems(const ConfigReader& other) {
  problems_.insert(problems_.end(), other.problems_.begin(), other.problems_.end());
}

void ConfigReader::refuse_unknown(std::string_view what) {
  const std::vector<std::string_view> candidates(known_.begin(), known_.end());
  for (const auto& [key, value] : object_.items()) {
    // A leading underscore is transformers' mark for what it notes for itself.
    if (value.is_null() || known_.contains(key) || key.starts_with('_')) {
      continue;
    }
    const std::string_view near = nearest(key, candidates);
    refuse(key, near.empty() ? concat("no known key of ", what,
                                      "; remove it if it does not change what the model computes")
                             : concat("no known key of ", what, "; did you mean ", near, "?"));
  }
}

Result<ModelSpec> ConfigReader::finish(const ModelSpec& spec) const {
  if (problems_.empty()) {
    return spec;
  }
  std::string message;
  for (const std::string& problem : problems_) {
    message += message.empty() ? problem : "\n" + problem;
  }
  return input_error(message);
}

// How text is generated says nothing about how the model computes.
static void ignore_generation_keys(ConfigReader& reader) {
  reader.ignore({"max_length",
                 "min_length",
                 "max_new_tokens",
                 "do_sample",
                 "early_stopping",
                 "num_beams",
                 "num_beam_groups",
                 "diversity_penalty",
                 "temperature",
                 "top_k",
                 "top_p",
                 "typical_p",
                 "repetition_penalty",
                 "length_penalty",
                 "no_repeat_ngram_size",
                 "encoder_no_repeat_ngram_size",
                 "bad_words_ids",
                 "num_return_sequences",
                 "return_dict_in_generate",
                 "forced_bos_token_id",
                 "forced_eos_token_id",
                 "remove_invalid_values",
                 "exponential_decay_length_penalty",
                 "suppress_tokens",
                 "begin_suppress_tokens",
                 "decoder_start_token_id",
                 "pad_token_id",
                 "sep_token_id",
                 "prefix",
                 "task_specific_params"});
}

void read_common_keys(ConfigReader& reader) {
  // Looked at by read_model_config().
  reader.ignore({"architectures", "model_type"});
  // How files and outputs look, and what a run may choose otherwise.
  reader.ignore({"torch_dtype",
                 "dtype",
                 "transformers_version",
                 "transformers.js_config",
                 "use_cache",
                 "return_dict",
                 "output_hidden_states",
                 "output_attentions",
                 "output_scores",
                 "torchscript",
                 "use_bfloat16",
                 "tf_legacy_loss",
                 "gradient_checkpointing",
                 "chunk_size_feed_forward",
                 "pretraining_tp",
                 "name_or_path",
                 "attn_implementation",
                 "tokenizer_class",
                 "tokenizer_model_max_length",
                 "model_max_length",
                 "unsloth_version",
                 "unsloth_fixed",
                 "is_llama_config",
                 "is_decoder",
                 "keys_to_ignore_at_inference"});
  ignore_generation_keys(reader);
  // Classification.
  reader.ignore({"finetuning_task", "id2label", "label2id", "num_labels", "problem_type"});

  reader.only("is_encoder_decoder", false, "there is no encoder");
  reader.only("add_cross_attention", false, "the block has no cross attention");
  reader.only("tie_encoder_decoder", false, "there is no encoder");
  reader.only("pruned_heads", Json::object(), "no head can be left out");
  reader.only("partial_rotary_factor", 1.0, "rotation covers the whole head");
  reader.only("rope_interleaved", false, "rotation pairs the halves of a head");
  reader.only("attn_logit_softcapping", nullptr, "scores are not capped");
  reader.only("final_logit_softcapping", nullptr, "logits are not capped");
  reader.only("quantization_config", nullptr, "load the model's weights in F32, BF16 or F16");
  reader.only("quantization", nullptr, "load the model's weights in F32, BF16 or F16");
  reader.only("auto_map", nullptr,
              "the directory brings code of its own; remove the key if that computes what the "
              "architecture it names does");
}

void read_token_ids(ConfigReader& reader, ModelSpec& spec) {
  spec.bos_token_id =
      reader.optional_integer("bos_token_id", 0, std::numeric_limits<int32_t>::max());
  spec.eos_token_ids = reader.integers("eos_token_id");
}

void write_token_ids(const ModelSpec& spec, Json& config) {
  // Written as null where there is none: transformers would put ids of its own there.
  config["bos_token_id"] = spec.bos_token_id ? Json(*spec.bos_token_id) : Json(nullptr);
  switch (spec.eos_token_ids.size()) {
    case 0:
      config["eos_token_id"] = nullptr;
      break;
    case 1:
      config["eos_token_id"] = spec.eos_token_ids.front();
      break;
    default:
      config["eos_token_id"] = spec.eos_token_ids;
  }
}

}  // namespace cadre::model
