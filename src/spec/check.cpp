#include "spec/check.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace cadre {
namespace {

// The combinations of one configuration; each function looks at one subject.
class Combinations {
 public:
  Combinations(const Draft& draft, const Statements& statements, ReadContext& context,
               std::vector<std::string>& notes)
      : draft_(draft), statements_(statements), context_(context), notes_(notes) {}

  void check_alternatives() {
    for (const Alternatives& pair : all_alternatives()) {
      const Statement* first = statements_.find(pair.first);
      const Statement* second = statements_.find(pair.second);
      if (first != nullptr && second != nullptr) {
        problem(pair.first,
                concat("given beside ", second->said, " (", second->place,
                       "); allowed: at most one of ", pair.first, " and ", pair.second));
      }
    }
    if (!statements_.is_given("training.steps") && !statements_.is_given("training.epochs")) {
      problem("training", "neither steps nor epochs is given; allowed: exactly one of the two");
    }
  }

  // Where the product of three sizes is formed, it fits.
  void check_tokens_of_step() {
    const TrainingSpec& training = draft_.run.training;
    constexpr double kTokensMax = 9007199254740992.0;  // 2^53
    const double tokens = static_cast<double>(training.micro_batch_size) *
                          static_cast<double>(training.gradient_accumulation_steps) *
                          static_cast<double>(draft_.run.data.sequence_length);
    if (tokens > kTokensMax) {
      problem("training.micro_batch_size",
              concat(training.micro_batch_size, " sequences of ", draft_.run.data.sequence_length,
                     " tokens, ", training.gradient_accumulation_steps, " times, are ", tokens,
                     " tokens of one step; allowed: at most ", kTokensMax));
    }
  }

  void check_recompute() {
    const Statement* granularity =
        statements_.find("training.activation_checkpointing_granularity");
    if (granularity != nullptr && !statements_.is_given("training.gradient_checkpointing")) {
      problem(granularity->key,
              "given without gradient_checkpointing; allowed: beside gradient_checkpointing: true, "
              "or false, which switches it off");
    }
  }

  void check_schedule() {
    const TrainingSpec& training = draft_.run.training;
    const ScheduleSpec& schedule = training.schedule;
    for (const std::string_view key : {"training.decay_steps", "training.decay_ratio"}) {
      if (statements_.find(key) != nullptr && schedule.kind != ScheduleKind::kWarmupStableDecay) {
        problem(key, "has no effect; allowed: with lr_scheduler: warmup_stable_decay");
      }
    }
    const int64_t rising = schedule.warmup_steps.value_or(0);
    const int64_t falling = schedule.decay_steps.value_or(0);
    if (training.steps.has_value() && rising + falling > *training.steps) {
      problem(rising > 0 ? "training.warmup_steps" : "training.decay_steps",
              concat(rising, " steps of warm-up and ", falling,
                     " of decay; allowed: together at most ", "training.steps, ", *training.steps));
    }
    if (schedule.warmup_ratio.value_or(0) + schedule.decay_ratio.value_or(0) > 1) {
      problem("training.warmup_ratio",
              concat("warmup_ratio ", *schedule.warmup_ratio, " and decay_ratio ",
                     *schedule.decay_ratio, "; allowed: together at most 1"));
    }
  }

  void check_optimizer() {
    const TrainingSpec& training = draft_.run.training;
    if (training.optimizer.nesterov && training.optimizer.momentum == 0) {
      problem("training.nesterov",
              "found true without momentum; allowed: with training.momentum above 0");
    }
    if (training.loss_spike_threshold > 0 && training.loss_spike_threshold <= 1) {
      problem("training.loss_spike_threshold",
              concat("found ", training.loss_spike_threshold,
                     ", which every loss exceeds; allowed: 0, or a number above 1"));
    }
    for (size_t i = 0; i < training.parameter_groups.size(); ++i) {
      const ParameterGroupSpec& group = training.parameter_groups[i];
      const std::string key = concat("training.parameter_groups[", i, "]");
      if (group.parameters.empty()) {
        problem(key + ".parameters", "found an empty list; allowed: at least one glob");
      }
      if (group.frozen &&
          (group.learning_rate_scale.has_value() || group.weight_decay.has_value())) {
        problem(key + ".frozen",
                "found true beside learning_rate_scale or weight_decay; allowed: one or the other");
      }
    }
  }

  void check_model_source() {
    const ModelSource& model = draft_.run.model;
    if (model.from.empty() && !has("model.model_type") && !has("model.architectures") &&
        !statements_.is_spoilt("model.from") && !statements_.is_spoilt("model.model_type") &&
        !statements_.is_spoilt("model.architectures")) {
      problem("model",
              "neither from nor model_type is given; allowed: from: DIR of a Hugging Face model, "
              "or the keys of its config.json");
    }
    if (model.from.empty() && !model.load_weights) {
      problem("model.load_weights", "found false without model.from; allowed: with it");
    }
  }

  // Of what is written in the configuration itself; what config.json of `from` says, check_model()
  // sees.
  void check_model_shape() {
    check_divides("model.num_attention_heads", "model.num_key_value_heads");
    if (!has("model.head_dim")) {
      check_divides("model.hidden_size", "model.num_attention_heads");
    }
    check_divides("model.n_embd", "model.n_head");
    const int64_t trained = draft_.tokenizer.train_vocab_size;
    const int64_t rows = number_of("model.vocab_size");
    if (trained > 0 && rows > 0 && rows < trained) {
      problem("model.vocab_size",
              concat("found ", rows, "; allowed: at least tokenizer.train.vocab_size, ", trained,
                     ", or nothing"));
    }
    const int64_t length = draft_.run.data.sequence_length;
    for (const std::string_view key : {"model.n_positions", "model.n_ctx"}) {
      if (has(key) && number_of(key) < length) {
        problem("data.sequence_length", concat("found ", length, "; allowed: at most ", key, ", ",
                                               number_of(key), ", as positions are learned"));
      }
    }
    if (has("model.max_position_embeddings") &&
        number_of("model.max_position_embeddings") < length && !is_gpt2()) {
      note("data.sequence_length",
           concat(length, " is more than the model's max_position_embeddings, ",
                  number_of("model.max_position_embeddings"),
                  "; rotary positions go on, untrained"));
    }
  }

  void check_tokenizer() {
    const bool has_tokenizer = draft_.tokenizer != TokenizerSource{} ||
                               !draft_.run.model.from.empty() ||
                               statements_.is_spoilt("tokenizer.from") ||
                               statements_.is_spoilt("tokenizer.train.vocab_size");
    const auto check = [&](const std::vector<SourceSpec>& sources, std::string_view list) {
      for (size_t i = 0; i < sources.size(); ++i) {
        const SourceFormat format = sources[i].format;
        if (format == SourceFormat::kText || format == SourceFormat::kJsonl) {
          problem(concat(list, "[", i, "]"),
                  "is text, but there is no tokenizer; allowed: with tokenizer.from, "
                  "tokenizer.train or model.from");
        }
      }
    };
    if (!has_tokenizer) {
      check(draft_.run.data.sources, "data.sources");
      check(draft_.run.data.validation, "data.validation");
    }
    if (draft_.tokenizer.train_vocab_size > 0 && !draft_.run.model.from.empty() &&
        draft_.run.model.load_weights) {
      problem(
          "tokenizer.train.vocab_size",
          "a new tokenizer does not fit the weights of model.from; allowed: without it, or with "
          "model.load_weights: false");
    }
  }

  void check_parallel() {
    const ParallelSpec& parallel = draft_.run.parallel;
    const std::pair<std::string_view, int64_t> sizes[] = {
        {"parallel.data_parallel_size", std::max<int64_t>(1, parallel.data_parallel_size)},
        {"parallel.tensor_parallel_size", parallel.tensor_parallel_size},
        {"parallel.pipeline_parallel_size", parallel.pipeline_parallel_size},
        {"parallel.context_parallel_size", parallel.context_parallel_size},
        {"parallel.expert_parallel_size", parallel.expert_parallel_size},
    };
    for (const auto& [key, size] : sizes) {
      if (size != 1) {
        problem(key,
                concat("found ", size, "; allowed: 1, as this version of cadre runs one process"));
      }
    }
    if (parallel.sequence_parallel && parallel.tensor_parallel_size == 1) {
      problem("parallel.sequence_parallel",
              "found true; allowed: with parallel.tensor_parallel_size above 1");
    }
    if (parallel.zero_stage > 0) {
      note("parallel.zero_stage",
           concat(parallel.zero_stage, " changes nothing with one process, which ",
                  "holds every shard"));
    }
  }

  void check_name() {
    const std::string& name = draft_.run.name;
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos) {
      problem("name",
              concat("found \"", name, "\"; allowed: a text that can name a folder, without /"));
    }
  }

 private:
  const Json* config(std::string_view key) const {
    const Json& json = draft_.run.model.config;
    const auto found = json.find(std::string(key.substr(std::string_view("model.").size())));
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }
  bool has(std::string_view key) const { return config(key) != nullptr; }
  int64_t number_of(std::string_view key) const {
    const Json* value = config(key);
    return value == nullptr ? 0 : value->get<int64_t>();
  }
  bool is_gpt2() const {
    const Json* type = config("model.model_type");
    return type != nullptr && *type == "gpt2";
  }

  void check_divides(std::string_view whole, std::string_view part) {
    if (has(whole) && has(part) && number_of(whole) % number_of(part) != 0) {
      problem(part, concat("found ", number_of(part), "; allowed: a divisor of ", whole, ", ",
                           number_of(whole)));
    }
  }

  void problem(std::string_view key, std::string_view text) {
    context_.problems.add(nearest_place(context_.places, key), key, text);
  }
  void note(std::string_view key, std::string_view text) {
    notes_.push_back(concat(nearest_place(context_.places, key), ": ", key, ": ", text));
  }

  const Draft& draft_;
  const Statements& statements_;
  ReadContext& context_;
  std::vector<std::string>& notes_;
};

}  // namespace

void check_combinations(const Draft& draft, const Statements& statements, ReadContext& context,
                        std::vector<std::string>& notes) {
  Combinations combinations(draft, statements, context, notes);
  combinations.check_name();
  combinations.check_model_source();
  combinations.check_model_shape();
  combinations.check_tokenizer();
  combinations.check_alternatives();
  combinations.check_tokens_of_step();
  combinations.check_recompute();
  combinations.check_schedule();
  combinations.check_optimizer();
  combinations.check_parallel();
}

Status check_model(const LoadedRun& loaded, const ModelSpec& model) {
  Problems problems;
  const int64_t length = loaded.run.data.sequence_length;
  if (model.positions == PositionKind::kLearned && length > model.max_position_embeddings) {
    problems.add(loaded.place_of("data.sequence_length"), "data.sequence_length",
                 concat("found ", length, "; allowed: at most the model's ",
                        model.max_position_embeddings, " positions, as they are learned"));
  }
  if (model.vocab_size > 0 && loaded.run.tokenizer.has_value() &&
      loaded.run.tokenizer->train_vocab_size > model.vocab_size) {
    problems.add(loaded.place_of("tokenizer.train.vocab_size"), "tokenizer.train.vocab_size",
                 concat("found ", loaded.run.tokenizer->train_vocab_size,
                        "; allowed: at most the model's vocab_size, ", model.vocab_size));
  }
  return problems.empty() ? Status() : Status(problems.error());
}

Status check_trainable(const LoadedRun& loaded) {
  Problems problems;
  if (loaded.run.data.sources.empty()) {
    problems.add(
        loaded.place_of("data.sources"), "data.sources",
        "not given; allowed: at least one source, as in `sources: [{paths: [corpus.txt]}]`");
  }
  return problems.empty() ? Status() : Status(problems.error());
}

}  // namespace cadre
