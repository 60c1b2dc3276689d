// The keys outside `model` and `training`.

#include "spec/schema.h"

namespace cadre {
namespace {

using namespace std::string_view_literals;
using schema::at_least;
using schema::boolean;
using schema::choice;
using schema::extent;
using schema::field;
using schema::positive;
using schema::text;
using schema::texts;

constexpr Allowed kInputPath = {.type = KeyType::kInputPath};
constexpr Allowed kInputPaths = {.type = KeyType::kInputPaths, .not_empty = true};
constexpr Allowed kOutputPath = {.type = KeyType::kOutputPath};
constexpr Allowed kThreads = {
    .type = KeyType::kIntegerOrAuto, .minimum = 1, .maximum = kThreadsMax};
constexpr Allowed kRanks = schema::whole(1, 1 << 24);
constexpr Allowed kRanksOrAuto = {
    .type = KeyType::kIntegerOrAuto, .minimum = 1, .maximum = kRanks.maximum};

template <auto... Members>
constexpr auto run = field<&Draft::run, Members...>;
template <auto... Members>
constexpr auto data = field<&Draft::run, &RunSpec::data, Members...>;
template <auto... Members>
constexpr auto checkpoint = field<&Draft::run, &RunSpec::checkpoint, Members...>;
template <auto... Members>
constexpr auto parallel = field<&Draft::run, &RunSpec::parallel, Members...>;
template <auto... Members>
constexpr auto sample = field<&Draft::run, &RunSpec::sample, Members...>;

constexpr ChoiceName kFormats[] = {
    {"auto", static_cast<int>(SourceFormat::kAuto)},
    {"text", static_cast<int>(SourceFormat::kText)},
    {"jsonl", static_cast<int>(SourceFormat::kJsonl)},
    {"tokens_json", static_cast<int>(SourceFormat::kTokensJson)},
    {"tokens_u16", static_cast<int>(SourceFormat::kTokensU16)},
    {"tokens_u32", static_cast<int>(SourceFormat::kTokensU32)},
};
constexpr ChoiceName kPackings[] = {
    {"concat", static_cast<int>(Packing::kConcat)},
    {"document", static_cast<int>(Packing::kDocument)},
};

constexpr auto kSame = OnResume::kRefused;
constexpr auto kReported = OnResume::kReported;
constexpr auto kFree = OnResume::kFree;

constexpr Key kSource[] = {
    {"name", text(), field<&SourceSpec::name>, kReported, "Names the source in messages.",
     "its first path"},
    {"paths", kInputPaths, field<&SourceSpec::paths>, kReported,
     "Files, directories and globs; quote a glob that begins with `*`.", "required"},
    {"exclude", texts(), field<&SourceSpec::exclude>, kSame,
     "Globs on the whole path or on the name alone; a file that matches one is left out."},
    {"format", choice(kFormats), field<&SourceSpec::format>, kSame,
     "What the files hold; `auto` goes by the suffix, and looks through `.gz` and `.zst`."},
    {"field", text(), field<&SourceSpec::field>, kSame,
     "The field of a JSONL object with the text."},
    {"weight", positive(), field<&SourceSpec::weight>, kSame,
     "Share of the samples, relative to the other sources."},
};
constexpr Table kSourceTable = {kSource, std::size(kSource)};

constexpr Key kKeys[] = {
    {"name", text(), run<&RunSpec::name>, kReported, "Names the run, and its folder.",
     "the name of the configuration's file"},
    {"output", kOutputPath, run<&RunSpec::output>, kFree,
     "The run's folder: metrics, checkpoints, logs and the resolved configuration.",
     "`runs/` and the name"},
    {"threads", kThreads, run<&RunSpec::threads>, kReported,
     "Threads that compute; `auto` is one per processor. The results do not depend on it."},

    {"tokenizer.from", kInputPath, field<&Draft::tokenizer, &TokenizerSource::from>, kReported,
     "A Hugging Face tokenizer.json, or a directory that holds one. A run goes on only with the "
     "tokens that it began with, wherever the tokenizer lies now.",
     "that of `model.from`"},
    {"tokenizer.train.vocab_size", schema::whole(257, 1 << 24),
     field<&Draft::tokenizer, &TokenizerSource::train_vocab_size>, kSame,
     "Trains a byte-level BPE of this size on `data.sources` before anything else.", "none"},

    {"data.sources", schema::records(&kSourceTable), data<&DataSpec::sources>, kSame,
     "What the model learns from.", "required to train"},
    {"data.validation", schema::records(&kSourceTable), data<&DataSpec::validation>, kReported,
     "What it is evaluated on.", "a part of `sources`"},
    {"data.validation_fraction", schema::below_one(), data<&DataSpec::validation_fraction>, kSame,
     "Share of the documents of `sources` that is held out if `validation` is not given. Where "
     "there is one document only (a text file is one), or where a source would be left without "
     "enough to train on, its last part is held out instead, from the end of a line on."},
    {"data.sequence_length", extent(2), data<&DataSpec::sequence_length>, kSame,
     "Tokens of one sequence."},
    {"data.packing", choice(kPackings), data<&DataSpec::packing>, kSame,
     "`concat` cuts a plain stream; with `document` attention and positions do not cross the start "
     "of a document."},
    {"data.shuffle", boolean(), data<&DataSpec::shuffle>, kSame,
     "Visits the sequences in an order that depends on `training.seed` and the epoch."},
    {"data.append_eos", boolean(), data<&DataSpec::append_eos>, kSame,
     "Ends every document with the end-of-text token, so that the model learns where one ends."},
    {"data.cache_directory", kOutputPath, data<&DataSpec::cache_directory>, kFree,
     "Where tokenized shards are kept and found again."},

    {"checkpoint.every", at_least(0), checkpoint<&CheckpointSpec::every>, kReported,
     "Steps between checkpoints; 0 saves only at the end and when the run is stopped."},
    {"checkpoint.keep", at_least(0), checkpoint<&CheckpointSpec::keep>, kReported,
     "How many of the newest checkpoints stay; 0 keeps all."},
    {"checkpoint.save_optimizer", boolean(), checkpoint<&CheckpointSpec::save_optimizer>, kReported,
     "Without it a checkpoint is only the model, and the run cannot be continued from it."},

    {"parallel.data_parallel_size", kRanksOrAuto, parallel<&ParallelSpec::data_parallel_size>,
     kReported,
     "Replicas that see different data; `auto` is whatever number of processes the others leave."},
    {"parallel.zero_stage", schema::whole(0, 3), parallel<&ParallelSpec::zero_stage>, kReported,
     "What data parallel replicas share out: 1 optimizer state, 2 gradients too, 3 parameters "
     "too."},
    {"parallel.tensor_parallel_size", kRanks, parallel<&ParallelSpec::tensor_parallel_size>,
     kReported, "Ways to split each layer's matrices."},
    {"parallel.sequence_parallel", boolean(), parallel<&ParallelSpec::sequence_parallel>, kReported,
     "Splits norms and residuals along the sequence within a tensor parallel group."},
    {"parallel.pipeline_parallel_size", kRanks, parallel<&ParallelSpec::pipeline_parallel_size>,
     kReported, "Stages of consecutive layers."},
    {"parallel.context_parallel_size", kRanks, parallel<&ParallelSpec::context_parallel_size>,
     kReported, "Ways to split each sequence."},
    {"parallel.expert_parallel_size", kRanks, parallel<&ParallelSpec::expert_parallel_size>,
     kReported, "Ways to share out the experts of a mixture."},

    {"sample.prompt", text(), sample<&SampleSpec::prompt>, kReported,
     "The text that is continued when the run ends.", "empty"},
    {"sample.tokens", extent(0), sample<&SampleSpec::tokens>, kReported,
     "Tokens to generate when the run ends; 0 generates none."},
    {"sample.temperature", schema::not_negative(), sample<&SampleSpec::temperature>, kReported,
     "Divides the logits; 0 always takes the likeliest token."},
    {"sample.top_k", extent(0), sample<&SampleSpec::top_k>, kReported,
     "Draws from this many of the likeliest tokens; 0 from all."},
    {"sample.top_p", schema::positive_share(), sample<&SampleSpec::top_p>, kReported,
     "Draws from the likeliest tokens that together have this probability."},
    {"sample.seed", schema::seed(), sample<&SampleSpec::seed>, kReported, "Seed of the draws."},
};

}  // namespace

Table run_keys() {
  return {kKeys, std::size(kKeys)};
}

}  // namespace cadre
