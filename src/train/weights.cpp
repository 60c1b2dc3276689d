#include "train/weights.h"

#include <string>

#include "checkpoint/reader.h"
#include "device/target.h"

namespace cadre::train {
namespace {

// Tensors that a folder may hold beside the parameters: buffers of old files, and a head that is
// tied to the embedding and was saved all the same.
LoadOptions tolerated(const Engine& engine, const CheckpointReader& reader) {
  LoadOptions options;
  for (const AvailableTensor& tensor : reader.tensors()) {
    if (model::is_stored_buffer(tensor.name)) {
      options.may_be_left_over.push_back(tensor.name);
    }
  }
  const ModelSpec& model = engine.spec().model;
  if (model.tie_word_embeddings) {
    options.may_be_left_over.push_back(model::family_of(model).tensor_name(model::Role::kHead, 0));
  }
  return options;
}

// The model's files then hold less than the fp32 values, which are kept beside them as master/NAME.
bool is_narrow(const Engine& engine) {
  return compute_dtype(engine.spec().training.precision) != DType::kF32;
}

// The run was in fp32 when it was saved: the model's file is the master.
bool holds_all_bits(const CheckpointReader& model, const std::string& name) {
  const AvailableTensor* const stored = model.find(name);
  return stored != nullptr && stored->type == StoredType::kF32;
}

WantedTensor wanted(const std::string& name, const nn::Parameter& parameter,
                    const Tensor& destination) {
  return {.name = name,
          .whole = parameter.spec.whole,
          .box = parameter.spec.box(),
          .destination = destination};
}

SavedTensor saved(const std::string& name, DType dtype, const nn::Parameter& parameter,
                  const ConstTensor& data) {
  return {.name = name,
          .dtype = dtype,
          .whole = parameter.spec.whole,
          .box = parameter.spec.box(),
          .data = data};
}

// The name under which the folder has a parameter: some families are stored with and without a
// prefix. One that it lacks keeps its own name, to be missed under it.
std::string name_in(const CheckpointReader& reader, const ModelSpec& spec,
                    const std::string& name) {
  for (const std::string& stored : model::stored_names(spec, name)) {
    if (reader.find(stored) != nullptr) {
      return stored;
    }
  }
  return name;
}

std::vector<WantedTensor> wanted_weights(const Engine& engine, const CheckpointReader& reader) {
  std::vector<WantedTensor> list;
  for (const nn::Parameter& parameter : engine.store().parameters()) {
    list.push_back(wanted(name_in(reader, engine.spec().model, parameter.spec.name), parameter,
                          parameter.stored()));
  }
  return list;
}

}  // namespace

Status check_weights(const EngineSpec& spec, const std::filesystem::path& folder) {
  Result<CheckpointReader> reader = CheckpointReader::open_model(folder);
  if (!reader) {
    return reader.error();
  }
  const Engine engine(spec, {.kind = DeviceKind::kMeta, .target = detect_cpu_target()}, 1, {});
  return reader->check(wanted_weights(engine, *reader), tolerated(engine, *reader));
}

Status load_weights(Engine& engine, const std::filesystem::path& folder) {
  Result<CheckpointReader> reader = CheckpointReader::open_model(folder);
  if (!reader) {
    return reader.error();
  }
  if (Status status = reader->load(wanted_weights(engine, *reader), tolerated(engine, *reader));
      !status) {
    return status;
  }
  engine.store().refresh_copies(engine.context());
  return {};
}

Status load_checkpoint(Engine& engine, const std::filesystem::path& checkpoint,
                       const Json& trainer_state) {
  // The model's files hold the dtype that was computed with; where a master was saved, it is the
  // truth, whatever the precision now.
  if (Status status = load_weights(engine, checkpoint); !status) {
    return status;
  }
  Result<CheckpointReader> reader = CheckpointReader::open_optimizer(checkpoint);
  if (!reader) {
    return reader.error();
  }
  Result<CheckpointReader> model = CheckpointReader::open_model(checkpoint);
  if (!model) {
    return model.error();
  }
  std::vector<WantedTensor> list;
  std::vector<WantedTensor> from_model;
  for (const nn::Parameter& parameter : engine.store().parameters()) {
    const std::string master = "master/" + parameter.spec.name;
    const bool keeps_master = is_narrow(engine) && !parameter.master.empty();
    if (reader->find(master) != nullptr) {
      list.push_back(
          wanted(master, parameter, keeps_master ? parameter.master : parameter.stored()));
    } else if (keeps_master && holds_all_bits(*model, parameter.spec.name)) {
      from_model.push_back(wanted(parameter.spec.name, parameter, parameter.master));
    } else if (keeps_master) {
      list.push_back(wanted(master, parameter, parameter.master));  // to be missed by name
    }
  }
  for (const optim::StateTensor& state : engine.optimizer().state()) {
    list.push_back(wanted(state.name, *state.parameter, state.tensor));
  }
  if (Status status = reader->load(list); !status) {
    return status;
  }
  if (Status status = model->load(from_model, {.may_be_left_over = {"*"}}); !status) {
    return status;
  }
  engine.optimizer().set_updates(trainer_state.at("optimizer_updates").get<int64_t>());
  engine.store().refresh_copies(engine.context());
  return {};
}

std::vector<SavedTensor> model_tensors(const Engine& engine) {
  const DType dtype = compute_dtype(engine.spec().training.precision);
  std::vector<SavedTensor> list;
  for (const nn::Parameter& parameter : engine.store().parameters()) {
    list.push_back(saved(parameter.spec.name, dtype, parameter, parameter.stored()));
  }
  return list;
}

std::vector<SavedTensor> optimizer_tensors(Engine& engine) {
  std::vector<SavedTensor> list;
  for (const nn::Parameter& parameter : engine.store().parameters()) {
    if (is_narrow(engine) && !parameter.master.empty()) {
      list.push_back(
          saved("master/" + parameter.spec.name, DType::kF32, parameter, parameter.master));
    }
  }
  for (const optim::StateTensor& state : engine.optimizer().state()) {
    list.push_back(saved(state.name, DType::kF32, *state.parameter, state.tensor));
  }
  return list;
}

}  // namespace cadre::train
