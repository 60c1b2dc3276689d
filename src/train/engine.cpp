#include "train/engine.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/text.h"
#include "kernels/elementwise.h"
#include "schedule/pipeline.h"

namespace cadre::train {
namespace {

constexpr int64_t kMetaCapacity = int64_t{1} << 60;

std::unique_ptr<MemorySource> make_source(const Device& device) {
  if (device.kind == DeviceKind::kMeta) {
    return std::make_unique<MetaMemory>();
  }
  return std::make_unique<HeapMemory>();
}

// Dropout of the configuration wins over that of the model.
ModelSpec model_as_trained(const EngineSpec& spec) {
  ModelSpec model = spec.model;
  if (spec.purpose != Purpose::kTraining) {
    model.embedding_dropout = model.residual_dropout = model.attention_dropout = 0.0;
  } else if (spec.training.dropout) {
    model.embedding_dropout = model.residual_dropout = model.attention_dropout =
        *spec.training.dropout;
  }
  return model;
}

nn::ParameterStore::Options store_options(const EngineSpec& spec) {
  return {.compute = compute_dtype(spec.training.precision),
          .is_frozen = [spec](std::string_view name) {
            if (spec.purpose == Purpose::kInference) {
              return true;
            }
            for (const ParameterGroupSpec& group : spec.training.parameter_groups) {
              if (std::ranges::any_of(group.parameters, [&](const std::string& pattern) {
                    return matches_glob(pattern, name);
                  })) {
                return group.frozen;
              }
            }
            return false;
          }};
}

}  // namespace

Engine::Engine(const EngineSpec& spec, const Device& device, int threads, const Ledger& capacity)
    : spec_(spec),
      device_(device),
      source_(make_source(device)),
      parameters_(*source_, trace_, arena_options(MemoryCategory::kParameters, capacity)),
      gradients_(*source_, trace_, arena_options(MemoryCategory::kGradients, capacity)),
      optimizer_memory_(*source_, trace_, arena_options(MemoryCategory::kOptimizer, capacity)),
      activations_(*source_, trace_, arena_options(MemoryCategory::kActivations, capacity)),
      workspace_(*source_, trace_, arena_options(MemoryCategory::kWorkspace, capacity)),
      threads_(threads),
      context_{.device = device, .workspace = workspace_, .threads = threads_, .trace = trace_},
      mesh_(parallel::single_process_mesh()),
      store_(store_options(spec)) {
  const model::Stage::Options options{.compute = compute_dtype(spec.training.precision),
                                      .recompute = spec.training.recompute,
                                      .positions = spec.sequence_length};
  stage_ = std::make_unique<model::Stage>(model_as_trained(spec), store_, mesh_, options);
  store_.allocate(
      context_,
      {.parameters = parameters_, .gradients = gradients_, .optimizer = optimizer_memory_});
  if (spec.purpose == Purpose::kTraining) {
    optimizer_ =
        std::make_unique<optim::Optimizer>(context_, optimizer_memory_, spec.training.optimizer,
                                           optim::optimized_parameters(store_, spec.training));
  }
  stage_->prepare(context_, activations_);
  const Shape tokens = {spec.training.micro_batch_size * spec.sequence_length};
  batch_.tokens = allocate(activations_, DType::kI32, tokens);
  batch_.targets = allocate(activations_, DType::kI32, tokens);
  batch_.positions = allocate(activations_, DType::kI32, tokens);
  batch_.starts = allocate(activations_, DType::kI32, tokens);
  sums_3_ = allocate(activations_, DType::kF32, {3});
}

Engine::~Engine() = default;

Arena::Options Engine::arena_options(MemoryCategory category, const Ledger& capacity) const {
  return {
      .category = category,
      .capacity_bytes = device_.kind == DeviceKind::kMeta ? kMetaCapacity : capacity.of(category)};
}

Ledger Engine::peaks() const {
  Ledger ledger;
  for (const Arena* arena :
       {&parameters_, &gradients_, &optimizer_memory_, &activations_, &workspace_}) {
    ledger.of(arena->category()) = arena->peak_bytes();
  }
  return ledger;
}

HostBatch Engine::host_view() {
  return {.tokens = batch_.tokens.view().flat<int32_t>(),
          .targets = batch_.targets.view().flat<int32_t>(),
          .positions = batch_.positions.view().flat<int32_t>(),
          .starts = batch_.starts.view().flat<int32_t>()};
}

model::Batch Engine::device_view(const StepInput& input, int64_t micro_batch) const {
  const int64_t sequences = spec_.training.micro_batch_size;
  model::Batch batch{.sequences = sequences,
                     .sequence_length = spec_.sequence_length,
                     .token_T = batch_.tokens.view(),
                     .position_T = batch_.positions.view(),
                     .target_T = batch_.targets.view(),
                     .seed = spec_.training.seed,
                     .step = input.step,
                     .first_row = micro_batch * sequences * spec_.sequence_length};
  if (spec_.separate_documents) {
    batch.start_BS = batch_.starts.view().reshaped({sequences, spec_.sequence_length});
  }
  return batch;
}

void Engine::clear_sums() {
  kernels::clear(context_, sums_3_.view().reshaped({1, 3}));
}

double Engine::read(ConstTensor one) const {
  return device_.kind == DeviceKind::kMeta ? 0.0 : one.flat<float>()[0];
}

namespace {

Tensor one_of(const OwnedTensor& sums_3, int64_t index) {
  return sums_3.view().slice({.first = {index}, .size = {1}});
}

nn::LossSums as_sums(const OwnedTensor& sums_3) {
  return {.loss_1 = one_of(sums_3, 0), .z_1 = one_of(sums_3, 1), .count_1 = one_of(sums_3, 2)};
}

}  // namespace

StepResult Engine::read_sums() const {
  StepResult result;
  const double count = read(one_of(sums_3_, 2));
  result.target_tokens = std::llround(count);
  if (count > 0.0) {
    result.loss = read(one_of(sums_3_, 0)) / count;
    result.z_loss = spec_.training.z_loss * read(one_of(sums_3_, 1)) / count;
  }
  result.finite = std::isfinite(result.loss) && std::isfinite(result.z_loss);
  return result;
}

void Engine::forget_bookings() {
  if (!context_.is_meta()) {
    context_.trace.discard();
  }
}

StepResult Engine::accumulate(const StepInput& input, const FillBatch& fill,
                              int64_t micro_batches) {
  clear_sums();
  const nn::LossSums sums = as_sums(sums_3_);
  const nn::LossHead::Options options{.gradient_scale = input.loss_scale,
                                      .z_loss = static_cast<float>(spec_.training.z_loss)};
  for (const schedule::Instruction& instruction : schedule::single_stage(micro_batches)) {
    switch (instruction.action) {
      case schedule::Action::kForward:
        forget_bookings();
        if (!context_.is_meta()) {
          fill(instruction.micro_batch, host_view());
        }
        stage_->forward(context_, activations_, slot_, device_view(input, instruction.micro_batch),
                        sums, options);
        break;
      case schedule::Action::kBackward:
        stage_->backward(context_, activations_, slot_);
        break;
      default:
        CADRE_CHECK(false, schedule::describe(instruction), " in the list of a single stage");
    }
  }
  mesh_.data->all_reduce_sum(context_, sums_3_).wait();
  return read_sums();
}

void Engine::update(const StepInput& input, StepResult& result) {
  optimizer_->step(context_, one_of(sums_3_, 2),
                   {.learning_rate = input.learning_rate,
                    .loss_scale = input.loss_scale,
                    .max_grad_norm = static_cast<float>(spec_.training.max_grad_norm)});
  result.grad_norm = read(optimizer_->norm_1());
  if (!std::isfinite(result.grad_norm)) {
    result.finite = false;
    optimizer_->set_updates(optimizer_->updates() - 1);
  }
}

StepResult Engine::step(const StepInput& input, const FillBatch& fill) {
  StepResult result = accumulate(input, fill, spec_.training.gradient_accumulation_steps);
  update(input, result);
  return result;
}

void Engine::clear_gradients() {
  for (const nn::Parameter& parameter : store_.parameters()) {
    if (!parameter.gradient.empty()) {
      kernels::clear(context_, parameter.gradient);
    }
  }
}

void Engine::evaluate(EvaluationSums& sums, const std::function<void(const HostBatch&)>& fill) {
  forget_bookings();
  clear_sums();
  if (!context_.is_meta()) {
    fill(host_view());
  }
  model::Batch batch = device_view({}, 0);
  batch.training = false;
  stage_->evaluate(context_, activations_, batch, as_sums(sums_3_));
  sums.loss += read(one_of(sums_3_, 0));
  sums.target_tokens += std::llround(read(one_of(sums_3_, 2)));
}

namespace {

template <typename T>
bool all_finite(std::span<const T> values) {
  return std::ranges::all_of(values, [](T value) { return std::isfinite(to_float(value)); });
}

bool is_finite(ConstTensor tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
      return all_finite(tensor.flat<float>());
    case DType::kBf16:
      return all_finite(tensor.flat<Bf16>());
    case DType::kF16:
      return all_finite(tensor.flat<F16>());
    case DType::kI32:
      return true;
  }
  return true;
}

}  // namespace

std::string Engine::first_not_finite(const StepInput& input, const FillBatch& fill) {
  for (const nn::Parameter& parameter : store_.parameters()) {
    if (!is_finite(parameter.stored())) {
      return "the parameter " + parameter.spec.name;
    }
  }
  std::string first;
  stage_->inspect_with([&first](const std::string& name, ConstTensor tensor) {
    if (first.empty() && !is_finite(tensor)) {
      first = name;
    }
  });
  clear_gradients();
  accumulate(input, fill, spec_.training.gradient_accumulation_steps);
  stage_->inspect_with(nullptr);
  for (const nn::Parameter& parameter : store_.parameters()) {
    if (first.empty() && !parameter.gradient.empty() && !is_finite(parameter.gradient)) {
      first = "the gradient of " + parameter.spec.name;
    }
  }
  clear_gradients();
  return first.empty() ? "the sum of the gradients' squares" : first;
}

}  // namespace cadre::train
