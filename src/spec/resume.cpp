#include "spec/resume.h"

#include <algorithm>
#include <set>
#include <utility>

#include "spec/schema.h"

namespace cadre {
namespace {

std::string shown(const Json& value) {
  return value.is_null()     ? "not given"
         : value.is_string() ? value.get<std::string>()
                             : value.dump();
}

class Comparison {
 public:
  void key(const Key& key, const std::string& path, const Json& saved, const Json& now) {
    if (saved == now) {
      return;
    }
    if (key.allowed.record != nullptr && saved.size() == now.size()) {
      for (size_t i = 0; i < saved.size(); ++i) {
        record(*key.allowed.record, concat(path, "[", i, "]"), saved[i], now[i]);
      }
      return;
    }
    if (key.allowed.record != nullptr) {
      differs(key.on_resume, path, concat(saved.size(), " elements"),
              concat(now.size(), " elements"));
    } else {
      differs(key.on_resume, path, shown(saved), shown(now));
    }
  }

  void differs(OnResume on_resume, const std::string& path, const std::string& saved,
               const std::string& now) {
    const std::string line = concat(path, ": ", saved, " in the saved run, ", now, " now");
    if (on_resume == OnResume::kRefused) {
      difference_.refused.push_back(line);
    } else if (on_resume == OnResume::kReported) {
      difference_.reported.push_back(line);
    }
  }

  ResumeDifference take() && { return std::move(difference_); }

 private:
  void record(const Table& table, const std::string& path, const Json& saved, const Json& now) {
    for (const Key& field : table) {
      const std::string name(field.path);
      key(field, path + "." + name, saved.value(name, Json()), now.value(name, Json()));
    }
  }

  ResumeDifference difference_;
};

// "rope_scaling.factor" of config.json, null if there is none.
Json config_value(const Json& config, std::string_view name) {
  const size_t dot = name.find('.');
  const auto found = config.find(std::string(name.substr(0, dot)));
  if (found == config.end() || dot == std::string_view::npos) {
    return found == config.end() ? Json() : *found;
  }
  return found->is_object() ? config_value(*found, name.substr(dot + 1)) : Json();
}

}  // namespace

ResumeDifference compare_for_resume(const RunSpec& saved, const RunSpec& now) {
  Draft before = draft_of(saved);
  Draft after = draft_of(now);
  Comparison comparison;
  for (const Key* key : all_keys()) {
    const std::string path(key->path);
    if (key->slot != nullptr) {
      comparison.key(*key, path, get_field(*key, &before), get_field(*key, &after));
    } else {
      const std::string_view name = key->path.substr(std::string_view("model.").size());
      comparison.key(*key, path, config_value(saved.model.config, name),
                     config_value(now.model.config, name));
    }
  }
  const auto batch = [](const RunSpec& run) {
    return run.training.micro_batch_size * run.training.gradient_accumulation_steps *
           std::max<int64_t>(1, run.parallel.data_parallel_size);
  };
  if (batch(saved) != batch(now)) {
    comparison.differs(OnResume::kRefused,
                       "the global batch (micro_batch_size times gradient_accumulation_steps times "
                       "data_parallel_size)",
                       std::to_string(batch(saved)), std::to_string(batch(now)));
  }
  return std::move(comparison).take();
}

}  // namespace cadre
