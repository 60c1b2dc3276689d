#include "data/corpus.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "storage/byte_stream.h"
#include "storage/file.h"

namespace cadre::data {
namespace {

namespace fs = std::filesystem;

bool is_glob(std::string_view text) {
  return text.find_first_of("*?") != std::string_view::npos;
}

bool is_hidden(std::string_view name) {
  return name.starts_with('.');
}

// Whether `path` is of the kind; broken links and what may not be looked at are not.
bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// Not followed: a link to a folder above would never end.
bool is_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(path, ignored);
}

Status add_folder(std::vector<fs::path>& found, const fs::path& folder) {
  const auto names = list_folder(folder);
  if (!names) {
    return names.error();
  }
  for (const std::string& name : *names) {
    const fs::path path = folder / name;
    if (is_hidden(name)) {
      continue;
    }
    if (is_file(path)) {
      found.push_back(path);
    } else if (is_folder(path) && !is_link(path)) {
      if (const Status below = add_folder(found, path); !below) {
        return below;
      }
    }
  }
  return {};
}

// Everything below `folder` that the pattern's components match, from the one given on.
Status add_matches(std::vector<fs::path>& found, const fs::path& folder,
                   const std::vector<std::string>& components, size_t component) {
  const std::string& pattern = components[component];
  const bool is_last = component + 1 == components.size();
  if (pattern == "**" && !is_last) {  // no folder at all; the loop below takes one and stays
    if (const Status none = add_matches(found, folder, components, component + 1); !none) {
      return none;
    }
  }
  const auto names = list_folder(folder);
  if (!names) {
    return names.error();
  }
  for (const std::string& name : *names) {
    const fs::path path = folder / name;
    if ((is_hidden(name) && !is_hidden(pattern)) || !matches_glob(pattern, name)) {
      continue;
    }
    if (is_last && is_file(path)) {
      found.push_back(path);
    } else if (is_folder(path) && !is_link(path) && (!is_last || pattern == "**")) {
      const size_t next = pattern == "**" ? component : component + 1;
      if (const Status below = add_matches(found, path, components, next); !below) {
        return below;
      }
    }
  }
  return {};
}

Result<std::vector<fs::path>> expand_glob(const std::string& text) {
  fs::path root;
  std::vector<std::string> components;
  for (const fs::path& part : fs::path(text)) {
    if (components.empty() && !is_glob(part.string())) {
      root /= part;
    } else if (!part.empty()) {
      components.push_back(part.string());
    }
  }
  std::vector<fs::path> found;
  const fs::path start = root.empty() ? fs::path(".") : root;
  if (is_folder(start)) {
    if (const Status status = add_matches(found, start, components, 0); !status) {
      return status.error();
    }
  }
  return found;
}

Result<std::vector<fs::path>> expand(const std::string& text) {
  std::vector<fs::path> found;
  if (is_glob(text) && !is_file(text)) {  // a name may hold a star
    Result<std::vector<fs::path>> matches = expand_glob(text);
    if (matches && matches->empty()) {
      return input_error("data: no file matches \"", text, "\"");
    }
    return matches;
  }
  if (is_folder(text)) {
    const Status status = add_folder(found, text);
    if (!status) {
      return status.error();
    }
    if (found.empty()) {
      return input_error("data: no file in the folder \"", text, "\"");
    }
    return found;
  }
  found.emplace_back(text);
  return found;
}

bool is_excluded(const fs::path& path, const SourceSpec& spec) {
  return std::ranges::any_of(spec.exclude, [&](const std::string& glob) {
    return matches_glob(glob, path.string()) || matches_glob(glob, path.filename().string());
  });
}

Status choose_format(CorpusFile& file, SourceFormat wanted) {
  file.format = wanted;
  if (wanted != SourceFormat::kAuto) {
    return {};
  }
  const std::string suffix = without_compression(file.path).extension().string();
  if (suffix == ".jsonl" || suffix == ".ndjson") {
    file.format = SourceFormat::kJsonl;
  } else if (suffix == ".json") {
    file.format = SourceFormat::kTokensJson;
  } else if (suffix == ".u16") {
    file.format = SourceFormat::kTokensU16;
  } else if (suffix == ".u32") {
    file.format = SourceFormat::kTokensU32;
  } else if (suffix == ".bin") {
    return input_error("data: \"", file.path.string(),
                       "\": .bin does not say how wide a token is; set format to tokens_u16 or "
                       "tokens_u32");
  } else {
    file.format = SourceFormat::kText;
    file.guessed = true;
  }
  return {};
}

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

Result<CorpusFile> look_at(const fs::path& path, SourceFormat wanted) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return file_error("read", path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return input_error("data: \"", path.string(), "\" is neither a file nor a folder");
  }
  CorpusFile file = {.path = path,
                     .bytes = info.st_size,
                     .modified_ns = nanoseconds(info.st_mtim),
                     .changed_ns = nanoseconds(info.st_ctim)};
  const Status status = choose_format(file, wanted);
  return status ? Result<CorpusFile>(std::move(file)) : status.error();
}

}  // namespace

std::string state_of(const CorpusFile& file) {
  return fmt::format("file {}\nformat {} bytes {} modified {} changed {}\n",
                     fs::absolute(file.path).lexically_normal().string(),
                     static_cast<int>(file.format), file.bytes, file.modified_ns, file.changed_ns);
}

std::string name_of(const SourceSpec& spec) {
  CADRE_CHECK(!spec.name.empty() || !spec.paths.empty(), "a source without paths");
  return spec.name.empty() ? spec.paths.front() : spec.name;
}

Result<std::vector<CorpusFile>> list_corpus(const SourceSpec& spec) {
  std::vector<CorpusFile> files;
  std::set<fs::path> seen;
  for (const std::string& text : spec.paths) {
    const Result<std::vector<fs::path>> found = expand(text);
    if (!found) {
      return found.error();
    }
    for (const fs::path& path : *found) {
      if (is_excluded(path, spec) || !seen.insert(path.lexically_normal()).second) {
        continue;
      }
      Result<CorpusFile> file = look_at(path, spec.format);
      if (!file) {
        return file.error();
      }
      files.push_back(std::move(*file));
    }
  }
  if (files.empty()) {
    return input_error("data: source \"", name_of(spec), "\" has no files: exclude takes them all");
  }
  return files;
}

}  // namespace cadre::data
