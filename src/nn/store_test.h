// For the tests of layers: a rig, and a store with a unit in it.

#pragma once

#include <functional>
#include <string_view>

#include "nn/parameter.h"
#include "testing/test_support.h"

namespace cadre::nn {

struct StoreRig {
  explicit StoreRig(const Device& device = testing::kCpu, ParameterStore::Options options = {},
                    const testing::RigOptions& sizes = {})
      : rig(device, sizes), store(std::move(options)), unit(store) {}

  // After every declaration. Values are random but for norms, and gradients start at zero.
  void allocate(uint64_t seed = 1) {
    store.allocate(rig.context, {rig.parameters, rig.gradients, optimizer});
    store.initialize(rig.context, seed);
  }

  Parameter& parameter(std::string_view name) {
    for (Parameter& one : store.parameters()) {
      if (one.spec.name == name) {
        return one;
      }
    }
    CADRE_CHECK(false, "no parameter ", name);
    return store.parameters().front();
  }

  testing::Rig rig;
  Arena optimizer{*rig.source, rig.trace, rig.arena(MemoryCategory::kOptimizer)};
  ParameterStore store;
  ParameterUnit unit;
};

inline std::function<bool(std::string_view)> only(std::string_view frozen) {
  return [frozen](std::string_view name) { return name == frozen; };
}

}  // namespace cadre::nn
