#include "data/dataset.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/check.h"
#include "data/prepare.h"
#include "data/sampling.h"
#include "data/split.h"
#include "data/token_stream.h"

namespace cadre::data {
namespace {

class PreparedDataset final : public Dataset {
 public:
  PreparedDataset(const DataSpec& spec, int64_t vocab_size)
      : spec_(spec), vocab_size_(vocab_size) {}

  Status prepare(const DatasetOptions& options) {
    PrepareOptions prepare_options = {.dataset = options,
                                      .append_eos = spec_.append_eos,
                                      .cache_directory = spec_.cache_directory};
    for (const auto* list : {&spec_.sources, &spec_.validation}) {
      for (const SourceSpec& source : *list) {
        Result<PreparedSource> prepared = prepare_source(source, prepare_options);
        if (!prepared) {
          return prepared.error();
        }
        reports_.push_back(prepared->report);
        shards_.push_back(std::move(prepared->shards));
      }
    }
    return {};
  }

  Status split(const DatasetOptions& options) {
    const size_t sources = spec_.sources.size();
    const bool splits = spec_.validation.empty() && spec_.validation_fraction > 0.0 && sources > 0;
    Split ranges = {};
    if (splits) {
      const std::vector<std::span<const TokenShard>> all(shards_.begin(), shards_.end());
      ranges = split_documents(all, {.fraction = spec_.validation_fraction,
                                     .training_tokens_min = spec_.sequence_length + 1,
                                     .ends_line = options.encoder.ends_line});
    }
    for (size_t i = 0; i < shards_.size(); ++i) {
      if (i < sources) {
        training_.emplace_back(shards_[i], ranges.training);
      }
      if (i >= sources || splits) {
        validation_.emplace_back(shards_[i], ranges.validation);
      }
    }
    const Status enough = check_training(splits);
    if (!enough) {
      return enough;
    }
    for (const size_t source : ranges.cut_sources) {
      tell_of_cut(source, options.log);
    }
    return check_validation();
  }

  std::unique_ptr<SampleStream> training(uint64_t seed) const override {
    return training_.empty()
               ? nullptr
               : make_training_stream(sampled(training_, spec_.sources), sampling_options(seed));
  }

  std::unique_ptr<SampleStream> validation() const override {
    const auto& specs = spec_.validation.empty() ? spec_.sources : spec_.validation;
    return validation_.empty()
               ? nullptr
               : make_validation_stream(sampled(validation_, specs), sampling_options(0));
  }

  const std::vector<SourceReport>& reports() const override { return reports_; }

  int64_t validation_text_bytes() const override {
    int64_t bytes = 0;
    for (const TokenStream& stream : validation_) {
      if (stream.has_cuts()) {
        return 0;
      }
      bytes += stream.text_bytes();
    }
    return bytes;
  }

 private:
  SamplingOptions sampling_options(uint64_t seed) const {
    return {.sequence_length = spec_.sequence_length,
            .packing = spec_.packing,
            .shuffle = spec_.shuffle,
            .seed = seed,
            .vocab_size = vocab_size_};
  }

  static std::vector<SampledSource> sampled(const std::vector<TokenStream>& streams,
                                            const std::vector<SourceSpec>& specs) {
    CADRE_CHECK_EQ(streams.size(), specs.size());
    std::vector<SampledSource> sources;
    for (size_t i = 0; i < streams.size(); ++i) {
      sources.push_back(
          {.name = name_of(specs[i]), .weight = specs[i].weight, .tokens = &streams[i]});
    }
    return sources;
  }

  void tell_of_cut(size_t source, Log* log) const {
    if (log == nullptr) {
      return;
    }
    const int64_t documents = reports_[source].documents;
    log->info("data",
              fmt::format("too few documents to split source=\"{}\" documents={}: the last "
                          "{} of {} tokens{} validate",
                          reports_[source].name, documents, validation_[source].tokens(),
                          reports_[source].tokens, documents == 1 ? "" : " (of each a part)"));
  }

  Status check_training(bool was_split) const {
    for (size_t i = 0; i < training_.size(); ++i) {
      const int64_t tokens = training_[i].tokens();
      if (tokens <= spec_.sequence_length) {
        return input_error(
            "data: source \"", reports_[i].name, "\" has ", tokens, " tokens to train on",
            was_split ? fmt::format(" (of {}, after the split by validation_fraction {})",
                                    reports_[i].tokens, spec_.validation_fraction)
                      : std::string(),
            ", fewer than one sequence and the token after it (", spec_.sequence_length + 1,
            "); give it more text, or set a smaller data.sequence_length",
            was_split ? " or data.validation_fraction" : "");
      }
    }
    return {};
  }

  Status check_validation() const {
    int64_t tokens = 0;
    bool has_target = validation_.empty();
    for (const TokenStream& stream : validation_) {
      tokens += stream.tokens();
      has_target = has_target || stream.tokens() >= 2;
    }
    if (has_target) {
      return {};
    }
    return input_error("data: validation has ", tokens,
                       " tokens, too few for one target; set a larger data.validation_fraction or "
                       "give data.validation files of its own");
  }

  DataSpec spec_;
  int64_t vocab_size_;
  std::vector<SourceReport> reports_;            // training sources, then validation sources
  std::vector<std::vector<TokenShard>> shards_;  // the same
  std::vector<TokenStream> training_;
  std::vector<TokenStream> validation_;
};

}  // namespace

Result<std::unique_ptr<Dataset>> Dataset::open(const DataSpec& spec,
                                               const DatasetOptions& options) {
  CADRE_CHECK(spec.sequence_length >= 1, spec.sequence_length);
  if (spec.sources.empty() && spec.validation.empty()) {
    return input_error("data: no sources; list files under data.sources");
  }
  auto dataset = std::make_unique<PreparedDataset>(spec, options.vocab_size);
  if (const Status prepared = dataset->prepare(options); !prepared) {
    return prepared.error();
  }
  if (const Status split = dataset->split(options); !split) {
    return split.error();
  }
  return std::unique_ptr<Dataset>(std::move(dataset));
}

}  // namespace cadre::data
