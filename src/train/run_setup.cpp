#include "train/run_setup.h"

#include <sched.h>

#include <cmath>

#include "base/text.h"
#include "checkpoint/reader.h"
#include "data/tokenizer_cache.h"
#include "model/family.h"
#include "spec/check.h"
#include "storage/file.h"
#include "train/limits.h"

namespace cadre::train {
namespace {

namespace fs = std::filesystem;

// config.json of model.from with the keys of the configuration over its own, or those keys alone.
Result<ModelSpec> read_source(const LoadedRun& loaded) {
  const ModelSource& source = loaded.run.model;
  if (source.from.empty()) {
    return model::read_model_config(source.config, loaded.place_of("model"));
  }
  Result<Json> config = read_model_config(fs::path(source.from));
  if (!config) {
    return config.error();
  }
  config->update(source.config);
  return model::read_model_config(*config, (fs::path(source.from) / "config.json").string());
}

// The model, once it fits the configuration; before a tokenizer is trained for it.
Result<ModelSpec> read_model(const LoadedRun& loaded) {
  Result<ModelSpec> model = read_source(loaded);
  if (!model) {
    return model;
  }
  if (Status status = check_model(loaded, *model); !status) {
    return status.error();
  }
  return model;
}

// Null where none is named and none is needed.
// A tokenizer that is to be trained goes to the cache; `undo` may be null.
Result<std::unique_ptr<data::Tokenizer>> find_tokenizer(const RunSpec& spec, int threads,
                                                        const SetupOptions& options,
                                                        data::CacheUndo* undo) {
  if (spec.tokenizer && spec.tokenizer->train_vocab_size > 0) {
    if (is_there(options.trained_tokenizer)) {
      return data::Tokenizer::load(options.trained_tokenizer.string());
    }
    return data::trained_tokenizer(spec.data.sources,
                                   {.vocab_size = spec.tokenizer->train_vocab_size,
                                    .cache_directory = spec.data.cache_directory,
                                    .threads = threads,
                                    .log = options.log,
                                    .undo = undo,
                                    .stop = options.stop});
  }
  if (spec.tokenizer) {
    return data::Tokenizer::load(spec.tokenizer->from);
  }
  if (!spec.model.from.empty() && is_there(fs::path(spec.model.from) / "tokenizer.json")) {
    return data::Tokenizer::load(spec.model.from);
  }
  return std::unique_ptr<data::Tokenizer>();
}

Status check_vocabulary(const ModelSpec& model, const data::Tokenizer* tokenizer,
                        const LoadedRun& loaded) {
  if (model.vocab_size == 0) {
    return input_error(loaded.place_of("model"),
                       ": model.vocab_size is missing, and there is no tokenizer to take it from");
  }
  if (tokenizer != nullptr && tokenizer->vocab_size() > model.vocab_size) {
    return input_error(loaded.place_of("tokenizer"), ": the tokenizer has ids up to ",
                       tokenizer->vocab_size() - 1, ", but the model's vocab_size is ",
                       model.vocab_size, "; name the tokenizer that belongs to the model");
  }
  return {};
}

constexpr double kStepsMax = 1e15;

// With training.steps the configuration alone shows it; how many steps epochs are is known here.
Status check_warmup(const RunSetup& setup, const LoadedRun& loaded) {
  const ScheduleSpec& schedule = setup.spec.training.schedule;
  const int64_t rising = schedule.warmup_steps.value_or(0);
  const int64_t falling = schedule.decay_steps.value_or(0);
  if (rising + falling <= setup.total_steps) {
    return {};
  }
  const std::string_view key = rising > 0 ? "training.warmup_steps" : "training.decay_steps";
  return input_error(loaded.place_of(key), ": ", key, ": ", rising, " steps of warm-up and ",
                     falling, " of decay, but the run has ", setup.total_steps,
                     " steps; allowed: together at most these, or warmup_ratio and decay_ratio, "
                     "which are shares of the run");
}

Status open_data(RunSetup& setup, const LoadedRun& loaded, const SetupOptions& options) {
  ThreadPool pool(setup.threads);
  Result<std::unique_ptr<data::Dataset>> dataset =
      data::Dataset::open(setup.spec.data, {.encoder = encoder_of(setup.tokenizer.get()),
                                            .vocab_size = setup.model.vocab_size,
                                            .pool = &pool,
                                            .log = options.log,
                                            .undo = setup.cache_undo.get(),
                                            .stop = options.stop});
  if (!dataset) {
    if (options.stop && options.stop()) {
      setup.cache_undo->keep();  // the same command goes on from here
    }
    return dataset.error();
  }
  setup.dataset = std::move(*dataset);
  setup.training = setup.dataset->training(setup.spec.training.seed);
  setup.validation = setup.dataset->validation();
  if (setup.training == nullptr) {
    return input_error(loaded.place_of("data"), ": data.sources names nothing to train on");
  }
  const TrainingSpec& training = setup.spec.training;
  if (training.steps) {
    setup.total_steps = *training.steps;
  } else {
    const double samples =
        *training.epochs * static_cast<double>(setup.training->samples_per_epoch());
    const double steps = std::ceil(samples / static_cast<double>(setup.samples_per_step()) - 1e-9);
    if (!(steps < kStepsMax)) {
      return input_error(loaded.place_of("training.epochs"),
                         ": training.epochs: ", *training.epochs, " epochs are ", steps,
                         " steps; allowed: below ", kStepsMax);
    }
    setup.total_steps = std::max<int64_t>(1, std::llround(steps));
  }
  return check_warmup(setup, loaded);
}

}  // namespace

data::TextEncoder encoder_of(const data::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) {
    return {};
  }
  return {.encode =
              [tokenizer](std::vector<int32_t>& ids, std::string_view text, bool continues) {
                tokenizer->encode_append(
                    text, {.add_special_tokens = false, .continues = continues}, ids);
              },
          .ends_line =
              [tokenizer](int32_t id) {
                return tokenizer->decode({&id, 1}).ends_with('\n');
              },
          .hash = tokenizer->fingerprint(),
          .eos = tokenizer->eos_id()};
}

int thread_count(int64_t asked) {
  if (asked > 0) {
    return static_cast<int>(asked);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

EngineSpec engine_spec(const RunSpec& spec, const ModelSpec& model) {
  return {.model = model,
          .training = spec.training,
          .sequence_length = spec.data.sequence_length,
          .separate_documents = spec.data.packing == Packing::kDocument};
}

Result<ModelSpec> resolve_model(const LoadedRun& loaded) {
  Result<ModelSpec> model = read_model(loaded);
  if (!model) {
    return model;
  }
  std::unique_ptr<data::Tokenizer> tokenizer;
  if (model->vocab_size == 0 && loaded.run.tokenizer &&
      loaded.run.tokenizer->train_vocab_size > 0) {
    model->vocab_size = loaded.run.tokenizer->train_vocab_size;
  } else if (model->vocab_size == 0) {
    Result<std::unique_ptr<data::Tokenizer>> found = find_tokenizer(loaded.run, 1, {}, nullptr);
    if (!found) {
      return found.error();
    }
    tokenizer = std::move(*found);
    model->vocab_size = tokenizer == nullptr ? 0 : tokenizer->vocab_size();
  }
  if (Status status = check_vocabulary(*model, tokenizer.get(), loaded); !status) {
    return status.error();
  }
  if (Status status = check_extent(engine_spec(loaded.run, *model)); !status) {
    return status.error();
  }
  return model;
}

Result<RunSetup> set_up_run(const LoadedRun& loaded, const SetupOptions& options) {
  RunSetup setup;
  setup.spec = loaded.run;
  setup.threads = thread_count(loaded.run.threads);
  setup.cache_undo = std::make_unique<data::CacheUndo>(loaded.run.data.cache_directory);
  if (Status status = check_trainable(loaded); !status) {
    return status.error();
  }
  Result<ModelSpec> model = read_model(loaded);
  if (!model) {
    return model.error();
  }
  setup.model = std::move(*model);
  Result<std::unique_ptr<data::Tokenizer>> tokenizer =
      find_tokenizer(loaded.run, setup.threads, options, setup.cache_undo.get());
  if (!tokenizer) {
    return tokenizer.error();
  }
  setup.tokenizer = std::move(*tokenizer);
  if (setup.model.vocab_size == 0 && setup.tokenizer != nullptr) {
    setup.model.vocab_size = setup.tokenizer->vocab_size();
  }
  if (setup.tokenizer != nullptr && setup.spec.model.from.empty()) {
    setup.model.bos_token_id = setup.tokenizer->bos_id();
    setup.model.eos_token_ids.clear();
    for (const int32_t id : setup.tokenizer->eos_ids()) {
      setup.model.eos_token_ids.push_back(id);
    }
  }
  if (Status status = check_vocabulary(setup.model, setup.tokenizer.get(), loaded); !status) {
    return status.error();
  }
  if (Status status = check_extent(engine_spec(loaded.run, setup.model)); !status) {
    return status.error();
  }
  if (Status status = open_data(setup, loaded, options); !status) {
    return status.error();
  }
  if (setup.spec.model.load_weights && !setup.spec.model.from.empty()) {
    setup.weights = setup.spec.model.from;
  }
  return setup;
}

}  // namespace cadre::train
