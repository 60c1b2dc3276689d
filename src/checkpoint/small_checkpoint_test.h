// A small model with its optimizer's state, saved again and again by the tests of this folder.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/held_tensor_test.h"
#include "checkpoint/save.h"

namespace cadre {

// Two matrices and a vector, their masters and moments. `salt` makes other numbers.
struct SmallModel {
  explicit SmallModel(const std::string& salt = "", int64_t rows = 37) {
    for (const auto& [name, shape] :
         {std::pair<std::string, Shape>{"model.embed_tokens.weight", {rows, 24}},
          {"model.layers.0.mlp.down_proj.weight", {24, 50}},
          {"model.norm.weight", {24}}}) {
      add(model, name, shape, salt);
      for (const char* kind : {"master/", "exp_avg/", "exp_avg_sq/"}) {
        add(optimizer, kind + name, shape, salt);
      }
    }
  }

  CheckpointContents contents(DType dtype = DType::kBf16) const {
    CheckpointContents contents{.config = {{"model_type", "llama"}, {"hidden_size", 24}},
                                .trainer_state = {{"step", 7}, {"loss", 2.25}}};
    for (const auto& [name, tensor] : model) {
      contents.model.push_back(whole_tensor(name, dtype, tensor.view()));
    }
    for (const auto& [name, tensor] : optimizer) {
      contents.optimizer.push_back(whole_tensor(name, DType::kF32, tensor.view()));
    }
    contents.files.push_back({.name = "tokenizer.json", .text = "{}\n"});
    return contents;
  }

  using Named = std::vector<std::pair<std::string, HeldTensor>>;
  Named model;
  Named optimizer;

 private:
  static void add(Named& tensors, const std::string& name, const Shape& shape,
                  const std::string& salt) {
    tensors.emplace_back(name, random_tensor(name + salt, shape));
  }
};

}  // namespace cadre
