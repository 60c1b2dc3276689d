// The inner polynomial of GELU's tanh form: sqrt(2/pi) (x + 0.044715 x^3).

#pragma once

namespace cadre::kernels::cpu {

inline constexpr float kGeluLinear = 0.79788456080286535588f;
inline constexpr float kGeluCubic = 0.044715f * kGeluLinear;

}  // namespace cadre::kernels::cpu
