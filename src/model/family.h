// Families: how a kind of model is written in a Hugging Face directory. A family maps its
// config.json to a ModelSpec and back, and says under which name each tensor of the block is
// stored. What differs in computation is data in ModelSpec; a family has no code that runs in a
// step.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "spec/model.h"

namespace cadre::model {

// The tensors of a decoder-only transformer, by what they do.
enum class Role {
  kTokenEmbedding,
  kPositionEmbedding,
  kAttentionNorm,  // before attention
  kAttentionNormBias,
  kQuery,
  kKey,
  kValue,
  kQueryKeyValue,  // one tensor with the rows (or, transposed, columns) of all three
  kQueryBias,
  kKeyBias,
  kValueBias,
  kQueryKeyValueBias,
  kQueryNorm,
  kKeyNorm,
  kAttentionOutput,
  kAttentionOutputBias,
  kMlpNorm,  // before the MLP
  kMlpNormBias,
  kGate,
  kGateBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kFinalNorm,
  kFinalNormBias,
  kHead,
};

struct Family {
  std::string_view model_type;    // config.json's model_type
  std::string_view architecture;  // and the one entry of its architectures
  std::string_view prefix;        // of all names but the head's; files of bare models lack it
  bool fused_query_key_value;     // stored as kQueryKeyValue
  bool transposed_linears;        // linear weights are stored [input, output]

  // `source` is named in messages. Refuses what the block cannot compute, key by key.
  Result<ModelSpec> (*read_config)(const Json& config, std::string_view source);
  Json (*write_config)(const ModelSpec& spec);

  // The name of a tensor; `layer` is ignored by roles outside the blocks. A role that the family
  // does not store is our own bug.
  std::string (*tensor_name)(Role role, int64_t layer);
};

// All families, in the order in which messages list them.
std::span<const Family* const> families();

// By ModelSpec::family. A name that is none of ours is our own bug.
const Family& family_of(const ModelSpec& spec);

// The spec that a config.json, or the `model:` section of a run, describes. `source` names the file
// in messages. The family goes by architectures, or by model_type where that is missing; one that
// no family has is refused by name, with the list of those that are.
//
// What is absent or null has transformers' default, but for vocab_size (0: the tokenizer decides),
// bos_token_id and eos_token_id (none). The error has one line for each key that is wrong, unknown,
// or that would change what the block computes.
Result<ModelSpec> read_model_config(const Json& config, std::string_view source);

// The config.json of `spec`, with torch_dtype as given ("float32", "bfloat16", "float16").
Json write_model_config(const ModelSpec& spec, std::string_view torch_dtype);

// Names under which a file may hold the tensor that tensor_name() calls `name`, best first: with
// the family's prefix and without it, and the one matrix of a tied model also as its head.
std::vector<std::string> stored_names(const ModelSpec& spec, std::string_view name);

// Whether a stored tensor is no parameter: masks and inverse frequencies in files of old versions.
bool is_stored_buffer(std::string_view name);

}  // namespace cadre::model
