#include "data/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/step_error.h"
#include "data/permutation.h"

namespace cadre::data {
namespace {

// Mapped pages count as resident memory; beyond this much they are given back. A corpus that is
// smaller stays, and its steps meet no page for the first time again.
constexpr int64_t kMappedBytesMax = int64_t{4} << 20;
constexpr int64_t kMappedBytesPerRead = int64_t{64} << 10;  // the kernel maps the neighbours, too

// What both streams share: one row of a batch out of a source.
class RowReader {
 public:
  RowReader(std::vector<SampledSource> sources, const SamplingOptions& options)
      : sources_(std::move(sources)),
        options_(options),
        tokens_(static_cast<size_t>(options.sequence_length) + 1),
        starts_(tokens_.size()) {
    CADRE_CHECK(options.sequence_length >= 1, options.sequence_length);
    for (const SampledSource& source : sources_) {
      shard_bytes_ += source.tokens->shard_bytes();
    }
  }

  int64_t length() const { return options_.sequence_length; }
  const SamplingOptions& options() const { return options_; }
  std::span<const SampledSource> sources() const { return sources_; }
  const SampledSource& source(int32_t number) const {
    return sources_[static_cast<size_t>(number)];
  }

  // Whether every document is one sequence and the token after its last: then each is a sample.
  bool samples_are_documents(const TokenStream& stream) const {
    return stream.document_length() == length() + 1;
  }

  // The first token of a sample.
  int64_t first_token(const SampleId& id) const {
    const TokenStream& stream = *source(id.source).tokens;
    return id.index * (samples_are_documents(stream) ? length() + 1 : length());
  }

  // The number of rows of `batch`, whose spans must agree.
  int64_t rows(const Batch& batch) const {
    const size_t elements = batch.tokens.size();
    const auto rows = static_cast<int64_t>(elements) / length();
    CADRE_CHECK_EQ(static_cast<int64_t>(elements), rows * length());
    CADRE_CHECK_EQ(batch.targets.size(), elements);
    CADRE_CHECK_EQ(batch.positions.size(), elements);
    CADRE_CHECK_EQ(batch.starts.size(), elements);
    CADRE_CHECK(batch.ids.empty() || static_cast<int64_t>(batch.ids.size()) == rows,
                batch.ids.size(), " ids for ", rows, " samples");
    return rows;
  }

  // Row `row` of `batch`; returns its targets. What the source does not have is padding.
  int64_t read(const Batch& batch, int64_t row, const SampleId& id) {
    int64_t available = 0;
    if (id.source >= 0) {
      const TokenStream& stream = *source(id.source).tokens;
      const int64_t first = first_token(id);
      available = std::min(stream.tokens() - first, length() + 1);
      const auto count = static_cast<size_t>(available);
      stream.read(std::span(tokens_).first(count), std::span(starts_).first(count), first);
      check_ids(count, id);
      limit_resident_memory();
    }
    std::fill(tokens_.begin() + available, tokens_.end(), 0);
    std::fill(starts_.begin() + available, starts_.end(), static_cast<int32_t>(available));
    if (!batch.ids.empty()) {
      batch.ids[static_cast<size_t>(row)] = id;
    }
    return write_row(batch, row, available);
  }

  std::string describe(const SampleId& id) const;

 private:
  int64_t write_row(const Batch& batch, int64_t row, int64_t available) const {
    const auto T = static_cast<size_t>(length());
    const size_t offset = static_cast<size_t>(row) * T;
    const bool separate = options_.packing == Packing::kDocument;
    int64_t targets = 0;
    for (size_t t = 0; t < T; ++t) {
      // The token after a document's last is the next document's first: where documents do not see
      // each other it cannot be foretold, and is no target.
      const bool next_is_new = separate && starts_[t + 1] == static_cast<int32_t>(t) + 1;
      const bool has_target = static_cast<int64_t>(t) + 1 < available && !next_is_new;
      const int32_t start = separate ? starts_[t] : 0;
      batch.tokens[offset + t] = tokens_[t];
      batch.targets[offset + t] = has_target ? tokens_[t + 1] : kIgnoredTarget;
      batch.starts[offset + t] = start;
      batch.positions[offset + t] = static_cast<int32_t>(t) - start;
      targets += has_target ? 1 : 0;
    }
    return targets;
  }

  void check_ids(size_t count, const SampleId& id) const {
    uint32_t largest = 0;
    for (const int32_t token : std::span(tokens_).first(count)) {
      largest = std::max(largest, static_cast<uint32_t>(token));
    }
    if (static_cast<int64_t>(largest) >= options_.vocab_size) {
      throw StepError(
          fmt::format("{} holds token {}, which is not below vocab_size {}: the prepared shard "
                      "went bad; delete "
                      "it and run again",
                      describe(id), largest, options_.vocab_size));
    }
  }

  void limit_resident_memory() {
    mapped_bytes_ += kMappedBytesPerRead + 4 * length();
    if (mapped_bytes_ > kMappedBytesMax && shard_bytes_ > kMappedBytesMax) {
      mapped_bytes_ = 0;
      for (const SampledSource& source : sources_) {
        source.tokens->release_pages();
      }
    }
  }

  std::vector<SampledSource> sources_;
  SamplingOptions options_;
  std::vector<int32_t> tokens_;  // one sequence and the token after it
  std::vector<int32_t> starts_;
  int64_t shard_bytes_ = 0;
  int64_t mapped_bytes_ = 0;  // at most, since pages were given back
};

std::string RowReader::describe(const SampleId& id) const {
  if (id.source < 0) {
    return "padding";
  }
  const SampledSource& from = source(id.source);
  const int64_t first = first_token(id);
  const TokenStream::Place place = from.tokens->find(first);
  return fmt::format("source \"{}\", epoch {}, sequence {} (from token {} of document {} of {})",
                     from.name, id.epoch, id.index, first - place.begin, place.document,
                     from.tokens->shard(place.shard).path().string());
}

class TrainingStream final : public SampleStream {
 public:
  TrainingStream(std::vector<SampledSource> sources, const SamplingOptions& options)
      : reader_(std::move(sources), options), mixture_(ratio_of(reader_.sources())) {
    for (const SampledSource& source : reader_.sources()) {
      const int64_t sequences = reader_.samples_are_documents(*source.tokens)
                                    ? source.tokens->documents()
                                    : (source.tokens->tokens() - 1) / options.sequence_length;
      CADRE_CHECK(sequences >= 1, "source ", source.name, " has less than one sequence");
      sequences_.push_back(sequences);
      // One key for every source; the pass over it is the stream.
      const PhiloxWords words = random_words(
          {.seed = options.seed, .stream = stream_of("data.order")}, sequences_.size() - 1);
      seeds_.push_back(uint64_t{words[1]} << 32 | words[0]);
    }
    const int64_t all = std::accumulate(sequences_.begin(), sequences_.end(), int64_t{0});
    const int64_t period = mixture_.period();
    samples_per_epoch_ = all >= period ? all - all % period : all;
  }

  int64_t sequence_length() const override { return reader_.length(); }
  int64_t samples_per_epoch() const override { return samples_per_epoch_; }
  std::string describe(const SampleId& id) const override { return reader_.describe(id); }

  int64_t fill(int64_t first, const Batch& batch) override {
    CADRE_CHECK(first >= 0, first);
    int64_t targets = 0;
    const int64_t rows = reader_.rows(batch);
    for (int64_t row = 0; row < rows; ++row) {
      targets += reader_.read(batch, row, sample(first + row));
    }
    return targets;
  }

 private:
  static std::vector<int64_t> ratio_of(std::span<const SampledSource> sources) {
    std::vector<double> weights;
    for (const SampledSource& source : sources) {
      weights.push_back(source.weight);
    }
    return whole_ratio(weights);
  }

  SampleId sample(int64_t number) {
    const Mixture::Draw draw = mixture_.at(number);
    const auto source = static_cast<size_t>(draw.source);
    const int64_t pass = draw.ordinal / sequences_[source];
    const int64_t place = draw.ordinal % sequences_[source];
    const RandomKey key = {.seed = seeds_[source], .stream = static_cast<uint64_t>(pass)};
    return {.source = draw.source,
            .epoch = pass,
            .index =
                reader_.options().shuffle ? Permutation(sequences_[source], key).at(place) : place};
  }

  RowReader reader_;
  Mixture mixture_;
  std::vector<int64_t> sequences_;  // by source
  std::vector<uint64_t> seeds_;
  int64_t samples_per_epoch_ = 0;
};

class ValidationStream final : public SampleStream {
 public:
  ValidationStream(std::vector<SampledSource> sources, const SamplingOptions& options)
      : reader_(std::move(sources), options) {
    const int64_t T = options.sequence_length;
    for (const SampledSource& source : reader_.sources()) {
      const int64_t targets = std::max<int64_t>(source.tokens->tokens() - 1, 0);
      ends_.push_back(samples() + (reader_.samples_are_documents(*source.tokens)
                                       ? source.tokens->documents()
                                       : (targets + T - 1) / T));
    }
    CADRE_CHECK(samples() >= 1, "no validation token is a target");
  }

  int64_t sequence_length() const override { return reader_.length(); }
  int64_t samples_per_epoch() const override { return samples(); }
  std::string describe(const SampleId& id) const override { return reader_.describe(id); }

  int64_t fill(int64_t first, const Batch& batch) override {
    CADRE_CHECK(first >= 0, first);
    int64_t targets = 0;
    const int64_t rows = reader_.rows(batch);
    for (int64_t row = 0; row < rows; ++row) {
      targets += reader_.read(batch, row, sample(first + row));
    }
    return targets;
  }

 private:
  int64_t samples() const { return ends_.empty() ? 0 : ends_.back(); }

  SampleId sample(int64_t number) const {
    const auto end = std::ranges::upper_bound(ends_, number);
    if (end == ends_.end()) {
      return {};
    }
    const int64_t begin = end == ends_.begin() ? 0 : *(end - 1);
    return {
        .source = static_cast<int32_t>(end - ends_.begin()), .epoch = 0, .index = number - begin};
  }

  RowReader reader_;
  std::vector<int64_t> ends_;  // by source, in samples, cumulative
};

}  // namespace

std::unique_ptr<SampleStream> make_training_stream(std::vector<SampledSource> sources,
                                                   const SamplingOptions& options) {
  return std::make_unique<TrainingStream>(std::move(sources), options);
}

std::unique_ptr<SampleStream> make_validation_stream(std::vector<SampledSource> sources,
                                                     const SamplingOptions& options) {
  return std::make_unique<ValidationStream>(std::move(sources), options);
}

}  // namespace cadre::data
