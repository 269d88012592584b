// The levels around a trace, which are put aside while it runs: see NoLevels.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/functorch/DynamicLayer.h>

#include <vector>

namespace diptych::detail {

/// Whether a tensor is wrapped by one of the levels around the innermost trace, or has a tangent, and not by a level
/// that began inside of the trace, or has ended.
bool is_of_outer_levels(const at::Tensor& tensor);

/// Returns the plain tensor that grads and jvps wrap, whose values are known inside of these; undefined if a vmap has
/// wrapped it, so that each element has another value.
at::Tensor known_value(const at::Tensor& tensor);

/// Takes the levels around a trace off the thread while it lives, so that a level may begin whose number is that of one
/// of them. Requires: no tensor that one of them wraps is met meanwhile.
class WithoutOuterLevels {
 public:
  WithoutOuterLevels();
  ~WithoutOuterLevels();
  WithoutOuterLevels(const WithoutOuterLevels&) = delete;
  WithoutOuterLevels& operator=(const WithoutOuterLevels&) = delete;

 private:
  std::vector<at::functorch::DynamicLayer> layers_;
};

}  // namespace diptych::detail
