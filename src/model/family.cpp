#include "model/family.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/text.h"
#include "model/family_list.h"

namespace cadre::model {
namespace {

constexpr std::array kFamilies = {&kLlama, &kMistral, &kQwen2, &kQwen3, &kGpt2};

std::string supported() {
  std::vector<std::string> names;
  for (const Family* family : kFamilies) {
    names.push_back(concat(family->architecture, " (", family->model_type, ")"));
  }
  return listed({names.begin(), names.end()});
}

std::string quoted(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The family that `value`, found under `key`, names in `field`; an error where there is none.
Result<const Family*> named(const Json& value, std::string_view key, std::string_view source,
                            std::string_view Family::*field) {
  for (const Family* family : kFamilies) {
    if (value.is_string() && value.get_ref<const std::string&>() == family->*field) {
      return family;
    }
  }
  return input_error(source, ": ", key, ": found ", quoted(value), ", supported are ", supported());
}

Result<const Family*> find_family(const Json& config, std::string_view source) {
  const auto architectures = config.find("architectures");
  const auto model_type = config.find("model_type");
  const bool has_type = model_type != config.end() && !model_type->is_null();
  if (architectures == config.end() || architectures->is_null() || architectures->empty()) {
    if (!has_type) {
      return input_error(source, ": model_type: found nothing, supported are ", supported());
    }
    return named(*model_type, "model_type", source, &Family::model_type);
  }
  if (!architectures->is_array() || architectures->size() != 1) {
    return input_error(source, ": architectures: found ", quoted(*architectures),
                       ", allowed is a list with one of ", supported());
  }
  auto family = named(architectures->front(), "architectures", source, &Family::architecture);
  if (family.ok() && has_type && *model_type != Json((*family)->model_type)) {
    return input_error(source, ": model_type: found ", quoted(*model_type), ", architectures says ",
                       (*family)->architecture, ", whose model_type is ", (*family)->model_type);
  }
  return family;
}

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family& family_of(const ModelSpec& spec) {
  const auto* const found =
      std::find_if(kFamilies.begin(), kFamilies.end(),
                   [&](const Family* family) { return family->model_type == spec.family; });
  CADRE_CHECK(found != kFamilies.end(), "no family is called ", spec.family);
  return **found;
}

Result<ModelSpec> read_model_config(const Json& config, std::string_view source) {
  if (!config.is_object()) {
    return input_error(source, ": found ", config.type_name(), ", wanted an object of keys");
  }
  const auto family = find_family(config, source);
  if (!family.ok()) {
    return family.error();
  }
  return (*family)->read_config(config, source);
}

Json write_model_config(const ModelSpec& spec, std::string_view torch_dtype) {
  const Family& family = family_of(spec);
  Json config;
  config["architectures"] = Json::array({family.architecture});
  config["model_type"] = family.model_type;
  config.update(family.write_config(spec));
  config["torch_dtype"] = torch_dtype;
  return config;
}

std::vector<std::string> stored_names(const ModelSpec& spec, std::string_view name) {
  const Family& family = family_of(spec);
  std::vector<std::string> names = {std::string(name)};
  if (name.starts_with(family.prefix)) {
    names.emplace_back(name.substr(family.prefix.size()));
  }
  if (spec.tie_word_embeddings && name == family.tensor_name(Role::kTokenEmbedding, 0)) {
    names.push_back(family.tensor_name(Role::kHead, 0));
  }
  return names;
}

bool is_stored_buffer(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias");
}

}  // namespace cadre::model
