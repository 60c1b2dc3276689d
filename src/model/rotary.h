// The table of rotary angles, with the ways of stretching it that pre-trained models use.

#pragma once

#include <cstdint>
#include <vector>

#include "spec/model.h"

namespace cadre::model {

// Row p, of head_dim values: cos(p f_i) for each pair i, then sin(p f_i), as kernels/rope.h reads
// them; times yarn's attention factor. `positions` rows. `sequence_length` is the longest sequence
// that will be seen: dynamic scaling depends on it.
//
// Frequencies are Hugging Face's (modeling_rope_utils), taken in double and rounded once.
std::vector<float> rotary_table(const ModelSpec& spec, int64_t positions, int64_t sequence_length);

}  // namespace cadre::model
