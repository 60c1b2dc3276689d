// Muon's orthogonalisation (Jordan et al., 2024, kellerjordan.github.io/posts/muon): a quintic
// Newton-Schulz iteration that moves every singular value of a matrix towards 1.
//
//   X = G / |G|;   then, `steps` times:   A = X X^T,  X = a X + (b A + c A A) X
//   a, b, c = 3.4445, -4.7750, 2.0315
//
// The coefficients are chosen for speed at 0, so singular values end between about 0.7 and 1.2.

#pragma once

#include <cstdint>

#include "device/context.h"
#include "tensor/tensor.h"

namespace cadre::optim {

// In place, in fp32. A matrix with more rows than columns is worked on transposed, so that X X^T is
// the smaller product. Takes its scratch from the workspace.
void orthogonalise(Context& context, Tensor x_RC, int64_t steps);

// sqrt(max(1, outputs / inputs)): the same size of update for every shape. O outputs, I inputs of
// the layer, however its matrix is stored.
float muon_scale(const Shape& shape_OI);

}  // namespace cadre::optim
