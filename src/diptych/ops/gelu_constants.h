// The numbers in GELU's formula and in its tanh approximation (Hendrycks and Gimpel, 2016).
#pragma once

namespace diptych::detail {

inline constexpr double kInverseSqrt2 = 0.70710678118654752440;
inline constexpr double kInverseSqrt2Pi = 0.39894228040143267794;
inline constexpr double kSqrt2OverPi = 0.79788456080286535588;
inline constexpr double kGeluCubic = 0.044715;

}  // namespace diptych::detail
