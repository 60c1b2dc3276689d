#include "train/probe.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/step_error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "storage/file.h"
#include "train/model_folder.h"
#include "train/run_setup.h"

namespace cadre {
namespace {

struct Flags {
  std::string model;
  std::string tokens;
  std::vector<int64_t> positions;
  bool gradients = false;
  std::string precision = "fp32";
  int64_t threads = 0;
  bool json = false;
};

void print_for_people(const Json& result) {
  std::printf("loss %.6f over %lld targets\n", result["loss"].get<double>(),
              static_cast<long long>(result["target_tokens"].get<int64_t>()));
  for (const Json& logits : result["logits"]) {
    const auto values = logits["values"].get<std::vector<double>>();
    const auto largest = std::max_element(values.begin(), values.end()) - values.begin();
    std::printf("position %lld: largest logit %.6f of token %lld\n",
                static_cast<long long>(logits["position"].get<int64_t>()),
                values[static_cast<size_t>(largest)], static_cast<long long>(largest));
  }
  if (result.contains("gradients")) {
    for (const auto& [name, gradient] : result["gradients"].items()) {
      std::printf("%-60s norm %.6e\n", name.c_str(), gradient["norm"].get<double>());
    }
  }
}

Status check_positions(const std::vector<int64_t>& positions, int64_t length) {
  for (const int64_t position : positions) {
    if (position < -length || position >= length) {
      return input_error("--positions ", position, ": the sequences have ", length, " positions");
    }
  }
  return {};
}

Result<Json> run_probe(const Flags& flags) {
  const std::optional<Precision> precision = precision_named(flags.precision);
  if (!precision) {
    return input_error("--precision ", flags.precision, ": allowed are fp32, bf16 and fp16");
  }
  Result<std::filesystem::path> folder = train::find_model_folder(flags.model);
  if (!folder) {
    return folder.error();
  }
  Result<ModelSpec> model = train::read_model_spec(*folder);
  if (!model) {
    return model.error();
  }
  Result<std::string> text = read_file(flags.tokens);
  if (!text) {
    return text.error();
  }
  Result<Json> json = parse_json(*text, flags.tokens);
  if (!json) {
    return json.error();
  }
  Result<train::ProbeTokens> tokens =
      train::read_probe_tokens(*json, flags.tokens, model->vocab_size);
  if (!tokens) {
    return tokens.error();
  }
  if (Status status = check_positions(flags.positions, tokens->length); !status) {
    return status.error();
  }
  Result<std::unique_ptr<train::Engine>> engine = train::load_engine(
      *folder, *model,
      {.precision = *precision,
       .purpose = flags.gradients ? train::Purpose::kGradients : train::Purpose::kInference,
       .batch_size = tokens->sequences,
       .sequence_length = tokens->length,
       .whole_logits = true,
       .threads = train::thread_count(flags.threads)});
  if (!engine) {
    return engine.error();
  }
  return train::probe(**engine, *tokens,
                      {.positions = flags.positions, .gradients = flags.gradients});
}

int run(const Flags& flags) {
  const Result<Json> result = run_probe(flags);
  if (!result) {
    return report(result.error());
  }
  if (flags.json) {
    std::printf("%s\n", result->dump().c_str());
  } else {
    print_for_people(*result);
  }
  return 0;
}

}  // namespace

void add_probe_command(CLI::App& app, int& exit_code) {
  const auto flags =
      std::make_shared<Flags>();  // shared with the callback, which outlives this call
  CLI::App* const command =
      app.add_subcommand("probe", "loss, logits and gradients on given tokens");
  command->add_option("model", flags->model, "a Hugging Face folder, checkpoint or run")
      ->required();
  command->add_option("--tokens", flags->tokens, "{\"tokens\": [[...], ...]}")->required();
  command->add_option("--positions", flags->positions, "of sequence 0: 0,1,-1")->delimiter(',');
  command->add_flag("--gradients", flags->gradients, "of every parameter");
  command->add_option("--precision", flags->precision, "fp32, bf16 or fp16");
  command->add_option("--threads", flags->threads, "0: one per processor")
      ->check(CLI::Range(0, kThreadsMax));
  command->add_flag("--json", flags->json, "print JSON");
  command->callback([flags, &exit_code] { exit_code = run(*flags); });
}

}  // namespace cadre
