#include "model/qwen2_windows.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"

namespace cadre::model {
namespace {

constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kFull = "full_attention";

// Fills window_of_layer from the list; `window` is 0 where the config has none.
void read_layer_types(ConfigReader& reader, const Json& types, int64_t window, ModelSpec& spec) {
  if (!types.is_array() || types.size() != static_cast<size_t>(spec.num_hidden_layers)) {
    reader.refuse("layer_types", concat("allowed is a list of ", spec.num_hidden_layers,
                                        " kinds, as many as num_hidden_layers"));
    return;
  }
  for (const Json& type : types) {
    if (type != Json(kSliding) && type != Json(kFull)) {
      reader.refuse("layer_types", concat("allowed are ", kFull, " and ", kSliding));
      return;
    }
    if (type == Json(kSliding) && window == 0) {
      reader.refuse("layer_types",
                    "a window needs use_sliding_window: true and a number as sliding_window");
      return;
    }
    spec.window_of_layer.push_back(type == Json(kSliding) ? window : 0);
  }
}

}  // namespace

void read_qwen_windows(ConfigReader& reader, ModelSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  // A null is no window; only where the key is missing has transformers a default.
  const int64_t fallback = reader.has("sliding_window") ? 0 : 4096;
  const int64_t given = reader.integer("sliding_window", fallback, 1, kMost);
  const int64_t window = reader.boolean("use_sliding_window", false) ? given : 0;
  const int64_t full_layers = reader.integer("max_window_layers", 28, 0, kMost);
  if (const Json* types = reader.find("layer_types")) {
    read_layer_types(reader, *types, window, spec);
  } else if (window > 0) {
    // Whatever the name says, the windows are on the layers from max_window_layers on.
    for (int64_t layer = 0; layer < spec.num_hidden_layers; ++layer) {
      spec.window_of_layer.push_back(layer < full_layers ? 0 : window);
    }
  }
  const auto& windows = spec.window_of_layer;
  if (std::all_of(windows.begin(), windows.end(), [](int64_t w) { return w == 0; })) {
    spec.window_of_layer.clear();
  }
}

void write_qwen_windows(const ModelSpec& spec, Json& config) {
  int64_t window = 0;
  int64_t first = spec.num_hidden_layers;
  Json types = Json::array();
  for (int64_t layer = 0; layer < spec.num_hidden_layers; ++layer) {
    const int64_t here = spec.window_of(layer);
    CADRE_CHECK(here == 0 || window == 0 || here == window, "two windows, ", here, " and ", window);
    types.push_back(here == 0 ? kFull : kSliding);
    if (here != 0) {
      window = here;
      first = std::min(first, layer);
    }
  }
  config["use_sliding_window"] = window != 0;
  config["sliding_window"] = window == 0 ? Json(nullptr) : Json(window);
  config["max_window_layers"] = first;
  config["layer_types"] = types;
}

}  // namespace cadre::model
