// How one tensor differs from another, in words.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace diptych::detail {

/// What differs between a result of the original function and that of the compiled one.
struct Difference {
  std::string what;      ///< "the values", "the dtype"
  std::string original;  ///< what the original function has there
  std::string compiled;
  bool comes_of_a_node = true;  ///< that a node of the graph may be at fault
};

/// Brings a view's gradient function up to date; false for a view that autograd no longer lets anyone use.
bool is_usable(const at::Tensor& tensor);

/// How far values may differ: absolute and relative to a tensor's largest, by its dtype where nothing is chosen.
double tolerance_for(at::ScalarType dtype, const std::optional<double>& chosen);

/// Whether, and where, elements of two tensors of one shape differ by more than `tolerance`.
std::optional<Difference> compare_values(const at::Tensor& original, const at::Tensor& compiled,
                                         const std::optional<double>& tolerance);
/// The same of all that a caller can see of a tensor: dtype, device, sizes, strides, values.
std::optional<Difference> compare_tensors(const at::Tensor& original, const at::Tensor& compiled,
                                          const std::optional<double>& tolerance, bool has_values = true);
/// The same of what autograd shows of it: requires_grad and is_leaf.
std::optional<Difference> compare_history(const at::Tensor& original, const at::Tensor& compiled);

}  // namespace diptych::detail
