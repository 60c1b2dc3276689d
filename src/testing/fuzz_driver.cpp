// Runs a fuzzer's LLVMFuzzerTestOneInput without libFuzzer, as a test that any compiler can build:
// the seeds themselves, then so many mutants of them, always the same.
//
//     fuzz_NAME SEED_FOLDER RUNS
//
// An input that ends the process, or takes more than ten seconds of its time, is left in
// fuzz_NAME.input in the current folder. More than 2 GiB of memory are refused.

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Of a sanitizer, if there is one: it ends the process without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

namespace fs = std::filesystem;

constexpr int kSecondsMax = 10;  // of the processor's time, for one input

std::string current;  // the input that is being run, for keep_input()
std::string kept_name;

void keep_input() {
  // Not safe in a signal handler by the letter, but the process is lost anyway.
  std::FILE* const file = std::fopen(kept_name.c_str(), "wb");
  if (file != nullptr) {
    std::fwrite(current.data(), 1, current.size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", kept_name.c_str());
  }
}

void keep_input_and_end(int signal_number) {
  keep_input();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_seeds(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const fs::path& path : paths) {
    seeds.push_back(read_file(path));
  }
  return seeds;
}

// What readers trip over.
constexpr std::string_view kPieces[] = {
    "\"",   "\\",    "\\u",  "\\ud800",   "{",     "}",    "[",      "]",
    ",",    ":",     "null", "-0",        "1e999", "-1",   "0.5",    "18446744073709551616",
    "\xFF", "\xE2",  "\r\n", "\t",        "\n",    "\n- ", "&a ",    "*a",
    "<<: ", "!!int", "---",  "|\n",       ">-\n",  "'",    "# ",     ".nan",
    "~",    "0x1",   "(?!",  "\\p{L}",    "{1,",   "[^",   "(?i:",   "+*",
    "\0",   "\x7F",  "F32",  "[0,99999]", "true",  "{}",   "[[[[[[", "{\"a\":",
    "▁",    "Ġ",     "é",    "e\xCC\x81"};

std::string mutant(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  const auto below = [&random](size_t bound) { return static_cast<size_t>(random() % bound); };
  std::string text = seeds[below(seeds.size())];
  for (size_t edits = 1 + below(5); edits > 0; --edits) {
    const size_t at = below(text.size() + 1);
    switch (below(7)) {
      case 0:
        text.insert(at, 1, static_cast<char>(below(256)));
        break;
      case 1:
        if (at < text.size()) {
          text[at] = static_cast<char>(static_cast<size_t>(text[at]) ^ (size_t{1} << below(8)));
        }
        break;
      case 2:
        text.erase(at, 1 + below(30));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 4: {
        const std::string& other = seeds[below(seeds.size())];
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
        break;
      }
      case 5:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      default:
        text.replace(at, std::min<size_t>(text.size() - at, below(8)),
                     kPieces[below(std::size(kPieces))]);
    }
  }
  return text;
}

void run(const std::string& input) {
  current = input;
  const itimerval limit{.it_interval = {}, .it_value = {.tv_sec = kSecondsMax, .tv_usec = 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
  // A copy of exactly this size, so that a sanitizer sees a read beyond it.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s SEED_FOLDER RUNS\n", argv[0]);
    return 2;
  }
  kept_name = fs::path(argv[0]).filename().string() + ".input";
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM}) {
    signal(number, keep_input_and_end);
  }
#ifndef CADRE_SANITIZED  // which reserves addresses without end
  constexpr rlim_t kMemoryBytesMax = rlim_t{2} << 30;
  const rlimit memory{.rlim_cur = kMemoryBytesMax, .rlim_max = kMemoryBytesMax};
  setrlimit(RLIMIT_AS, &memory);
#endif
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_input);
  }
  const std::vector<std::string> seeds = read_seeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s holds no seeds\n", argv[1]);
    return 2;
  }
  for (const std::string& seed : seeds) {
    run(seed);
  }
  std::mt19937_64 random(1);
  const int64_t runs = std::atoll(argv[2]);
  for (int64_t i = 0; i < runs; ++i) {
    run(mutant(seeds, random));
  }
  std::printf("%zu seeds and %lld mutants\n", seeds.size(), static_cast<long long>(runs));
  return 0;
}
