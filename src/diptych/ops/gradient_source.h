// Where the backward step of a loop takes an operand from, as an attribute of hop.reverse_segments holds it.
#pragma once
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <vector>

namespace diptych::detail {

struct GradientSource {
  enum class Kind : uint8_t { kResidual, kOperand, kTangent } kind = Kind::kResidual;
  size_t index = 0;  ///< which residual or operand of the forward hop, or tangent of its results
};

/// Sources as an attribute holds them: the kind and the index of each.
c10::IValue sources_attribute(const std::vector<GradientSource>& sources);
std::vector<GradientSource> gradient_sources(const std::vector<int64_t>& attribute);

}  // namespace diptych::detail
