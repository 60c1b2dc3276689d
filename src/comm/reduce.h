// The arithmetic of a reduction: element by element, in rank order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "comm/request.h"

namespace cadre::comm {

// targets[*][i] = sources[0][i] + sources[1][i] + ... for every i of `part`; the largest for
// kAllReduceMax, where a NaN stays one. A target may be a source, and nothing may overlap
// otherwise. Narrow floats are added in fp32 and rounded once; integers wrap.
void reduce(Operation operation, DType dtype, std::span<std::byte* const> targets,
            std::span<const std::byte* const> sources, const Part& part);

}  // namespace cadre::comm
