// Mesh: the groups that this rank belongs to, one per way of splitting a run.

#pragma once

#include <memory>

#include "comm/collective.h"

namespace cadre::parallel {

struct Mesh {
  std::unique_ptr<comm::Collective> tensor;  // shares every layer
  std::unique_ptr<comm::Collective> data;    // shares the batch
};

// One process: every group has one member.
inline Mesh single_process_mesh() {
  return {.tensor = comm::make_recorded({}), .data = comm::make_recorded({})};
}

}  // namespace cadre::parallel
