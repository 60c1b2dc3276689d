// The keys of `training`, and their other spellings.

#include "spec/schema.h"

namespace cadre {
namespace {

using schema::at_least;
using schema::below_one;
using schema::boolean;
using schema::choice;
using schema::extent;
using schema::field;
using schema::not_negative;
using schema::positive;
using schema::share;

template <auto... Members>
constexpr auto training = field<&Draft::run, &RunSpec::training, Members...>;
template <auto Member>
constexpr auto optimizer = training<&TrainingSpec::optimizer, Member>;
template <auto Member>
constexpr auto schedule = training<&TrainingSpec::schedule, Member>;

constexpr ChoiceName kPrecisions[] = {
    {"fp32", static_cast<int>(Precision::kFp32)},
    {"bf16", static_cast<int>(Precision::kBf16)},
    {"fp16", static_cast<int>(Precision::kFp16)},
    {"float32", static_cast<int>(Precision::kFp32)},
    {"bfloat16", static_cast<int>(Precision::kBf16)},
    {"float16", static_cast<int>(Precision::kFp16)},
};
constexpr ChoiceName kGranularities[] = {
    {"selective", static_cast<int>(Draft::Granularity::kSelective)},
    {"full", static_cast<int>(Draft::Granularity::kFull)},
};
constexpr ChoiceName kOptimizers[] = {
    {"adamw", static_cast<int>(OptimizerKind::kAdamW)},
    {"sgd", static_cast<int>(OptimizerKind::kSgd)},
    {"lion", static_cast<int>(OptimizerKind::kLion)},
    {"muon", static_cast<int>(OptimizerKind::kMuon)},
    {"adamw_torch", static_cast<int>(OptimizerKind::kAdamW)},
    {"adamw_torch_fused", static_cast<int>(OptimizerKind::kAdamW)},
    {"adamw_hf", static_cast<int>(OptimizerKind::kAdamW)},
    {"adamw_apex_fused", static_cast<int>(OptimizerKind::kAdamW)},
    {"lion_32bit", static_cast<int>(OptimizerKind::kLion)},
};
constexpr ChoiceName kSchedules[] = {
    {"constant", static_cast<int>(ScheduleKind::kConstant)},
    {"linear", static_cast<int>(ScheduleKind::kLinear)},
    {"cosine", static_cast<int>(ScheduleKind::kCosine)},
    {"warmup_stable_decay", static_cast<int>(ScheduleKind::kWarmupStableDecay)},
    {"constant_with_warmup", static_cast<int>(ScheduleKind::kConstant)},
    {"cosine_with_min_lr", static_cast<int>(ScheduleKind::kCosine)},
    {"wsd", static_cast<int>(ScheduleKind::kWarmupStableDecay)},
};
constexpr ChoiceName kBadSteps[] = {
    {"stop", static_cast<int>(OnBadStep::kStop)},
    {"skip", static_cast<int>(OnBadStep::kSkip)},
};

constexpr auto kSame = OnResume::kRefused;
constexpr auto kReported = OnResume::kReported;

constexpr Key kGroup[] = {
    {"parameters", schema::texts(), field<&ParameterGroupSpec::parameters>, kSame,
     "Globs on the Hugging Face names of the parameters.", "required"},
    {"learning_rate_scale", not_negative(), field<&ParameterGroupSpec::learning_rate_scale>,
     kReported, "Times the schedule's learning rate.", "1"},
    {"weight_decay", not_negative(), field<&ParameterGroupSpec::weight_decay>, kReported,
     "Instead of `training.weight_decay`, for vectors too.", "that of `training`"},
    {"frozen", boolean(), field<&ParameterGroupSpec::frozen>, kSame,
     "These parameters are not trained."},
};
constexpr Table kGroupTable = {kGroup, std::size(kGroup)};

constexpr Key kKeys[] = {
    {"training.micro_batch_size", extent(1), training<&TrainingSpec::micro_batch_size>, kReported,
     "Sequences of one forward and backward pass, per data parallel replica."},
    {"training.gradient_accumulation_steps", extent(1),
     training<&TrainingSpec::gradient_accumulation_steps>, kReported,
     "Micro-batches of one step. Its product with `micro_batch_size` and the replicas is the "
     "global "
     "batch, which may not change on resume."},
    {"training.steps", at_least(1), training<&TrainingSpec::steps>, kReported,
     "How long to train, in steps; exactly one of `steps` and `epochs` is given.", "none"},
    {"training.epochs", positive(), training<&TrainingSpec::epochs>, kReported,
     "How long to train, in passes over the data.", "none"},
    {"training.precision", choice(kPrecisions), training<&TrainingSpec::precision>, kReported,
     "What weights and activations are computed in; masters, gradients, norms and loss are fp32."},
    {"training.gradient_checkpointing", boolean(), field<&Draft::gradient_checkpointing>, kReported,
     "Recomputes activations in the backward pass instead of keeping them."},
    {"training.activation_checkpointing_granularity", choice(kGranularities),
     field<&Draft::granularity>, kReported,
     "With `gradient_checkpointing`: `full` keeps only each block's input; `selective` recomputes "
     "norms, the activation product and the attention core."},
    {"training.seed", schema::seed(), training<&TrainingSpec::seed>, kSame,
     "Seed of initial weights, data order and dropout."},

    {"training.optimizer", choice(kOptimizers), optimizer<&OptimizerSpec::kind>, kSame,
     "What turns gradients into steps; `muon` takes the hidden matrices and leaves the rest to "
     "AdamW."},
    {"training.learning_rate", positive(), schedule<&ScheduleSpec::learning_rate>, kReported,
     "The peak of the schedule."},
    {"training.weight_decay", not_negative(), optimizer<&OptimizerSpec::weight_decay>, kReported,
     "Decoupled decay, of tensors with two dimensions or more."},
    {"training.beta1", below_one(), optimizer<&OptimizerSpec::beta1>, kReported,
     "AdamW and Lion: how slowly the first moment forgets."},
    {"training.beta2", below_one(), optimizer<&OptimizerSpec::beta2>, kReported,
     "AdamW and Lion: how slowly the second moment forgets."},
    {"training.epsilon", positive(), optimizer<&OptimizerSpec::epsilon>, kReported,
     "AdamW: added to the root of the second moment."},
    {"training.momentum", below_one(), optimizer<&OptimizerSpec::momentum>, kReported,
     "SGD: how slowly its average of gradients forgets."},
    {"training.nesterov", boolean(), optimizer<&OptimizerSpec::nesterov>, kReported,
     "SGD: looks one step ahead; needs `momentum`."},
    {"training.muon_momentum", below_one(), optimizer<&OptimizerSpec::muon_momentum>, kReported,
     "Muon: how slowly its average of gradients forgets."},
    {"training.muon_newton_schulz_steps", schema::whole(1, 20),
     optimizer<&OptimizerSpec::muon_newton_schulz_steps>, kReported,
     "Muon: iterations that make an update orthogonal."},
    {"training.muon_learning_rate_scale", positive(),
     optimizer<&OptimizerSpec::muon_learning_rate_scale>, kReported,
     "Muon: of the matrices that it updates, times `learning_rate`."},

    {"training.lr_scheduler", choice(kSchedules), schedule<&ScheduleSpec::kind>, kReported,
     "How the learning rate goes after warm-up."},
    {"training.min_lr_ratio", share(), schedule<&ScheduleSpec::min_lr_ratio>, kReported,
     "The schedule's floor, times the peak."},
    {"training.warmup_steps", at_least(0), schedule<&ScheduleSpec::warmup_steps>, kReported,
     "Steps of linear warm-up; at most one of `warmup_steps` and `warmup_ratio` is given.", "none"},
    {"training.warmup_ratio", share(), schedule<&ScheduleSpec::warmup_ratio>, kReported,
     "Warm-up as a share of all steps.", "none"},
    {"training.decay_steps", at_least(1), schedule<&ScheduleSpec::decay_steps>, kReported,
     "`warmup_stable_decay`: the last steps, in which the rate falls to its floor; at most one of "
     "`decay_steps` and `decay_ratio` is given.",
     "none"},
    {"training.decay_ratio", schema::positive_share(), schedule<&ScheduleSpec::decay_ratio>,
     kReported, "The same as a share of all steps.", "none"},

    {"training.parameter_groups", schema::records(&kGroupTable),
     training<&TrainingSpec::parameter_groups>, kSame,
     "Exceptions for some parameters; the first group that matches a name wins.", "none"},
    {"training.max_grad_norm", not_negative(), training<&TrainingSpec::max_grad_norm>, kReported,
     "Gradients with a larger global norm are scaled down to it; 0 never does."},
    {"training.z_loss", not_negative(), training<&TrainingSpec::z_loss>, kReported,
     "Coefficient of the mean square of log(sum(exp(logits))), added to the loss."},
    {"training.dropout", below_one(), training<&TrainingSpec::dropout>, kReported,
     "Instead of every dropout of the model: of the embedding, of what attention and MLP add, and "
     "of "
     "attention's probabilities.",
     "those of the model"},
    {"training.initial_loss_scale", schema::between(1, 4294967296.0),
     training<&TrainingSpec::initial_loss_scale>, kReported,
     "fp16: the factor of the mean loss at the start."},
    {"training.loss_scale_window", at_least(1), training<&TrainingSpec::loss_scale_window>,
     kReported, "fp16: steps without overflow before the scale doubles."},
    {"training.on_bad_step", choice(kBadSteps), training<&TrainingSpec::on_bad_step>, kReported,
     "What to do about a NaN, an infinity or a spike of the loss."},
    {"training.bad_steps_max", at_least(1), training<&TrainingSpec::bad_steps_max>, kReported,
     "Bad steps in a row that are skipped before the run stops anyway."},
    {"training.loss_spike_threshold", not_negative(), training<&TrainingSpec::loss_spike_threshold>,
     kReported, "A loss above this many times the running median is a spike; 0 never is."},
    {"training.eval_every", at_least(0), training<&TrainingSpec::eval_every>, kReported,
     "Steps between evaluations; 0 evaluates only at the end."},
    {"training.eval_batches_max", at_least(0), training<&TrainingSpec::eval_batches_max>, kReported,
     "Micro-batches of one evaluation; 0 takes the whole validation set."},
};

constexpr Synonym kSynonyms[] = {
    {"training.per_device_train_batch_size", "training.micro_batch_size"},
    {"training.train_micro_batch_size_per_gpu", "training.micro_batch_size"},
    {"training.max_steps", "training.steps", SynonymKind::kNegativeIsAbsent},
    {"training.num_train_epochs", "training.epochs"},
    {"training.bf16", "training.precision", SynonymKind::kPrecisionFlag},
    {"training.fp16", "training.precision", SynonymKind::kPrecisionFlag},
    {"training.optim", "training.optimizer"},
    {"training.adam_beta1", "training.beta1"},
    {"training.adam_beta2", "training.beta2"},
    {"training.adam_epsilon", "training.epsilon"},
    {"training.lr_scheduler_type", "training.lr_scheduler", SynonymKind::kScheduler},
    {"training.gradient_clipping", "training.max_grad_norm"},
    {"training.eval_steps", "training.eval_every"},
    {"training.save_steps", "checkpoint.every"},
    {"training.save_total_limit", "checkpoint.keep"},
    {"training.max_seq_length", "data.sequence_length"},
    {"training.max_length", "data.sequence_length"},
    {"training.output_dir", "output"},
    {"training.run_name", "name"},
};

constexpr Alternatives kAlternatives[] = {
    {"training.steps", "training.epochs"},
    {"training.warmup_steps", "training.warmup_ratio"},
    {"training.decay_steps", "training.decay_ratio"},
    {"tokenizer.from", "tokenizer.train.vocab_size"},
};

}  // namespace

Table training_keys() {
  return {kKeys, std::size(kKeys)};
}
std::span<const Synonym> all_synonyms() {
  return kSynonyms;
}
std::span<const Alternatives> all_alternatives() {
  return kAlternatives;
}

}  // namespace cadre
