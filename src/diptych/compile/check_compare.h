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
  bool comes_of_a_node = true;  ///< whether a node of the graph may be at fault
};

/// Brings a view's gradient function up to date; returns false for a view that autograd no longer lets anyone use.
bool is_usable(const at::Tensor& tensor);

/// Returns how far values may differ, absolutely and relative to a tensor's largest: `chosen`, or else by dtype.
double tolerance_for(at::ScalarType dtype, const std::optional<double>& chosen);

/// Returns where elements of two tensors of the same shape differ by more than `tolerance`; nullopt if they nowhere do.
std::optional<Difference> compare_values(const at::Tensor& original, const at::Tensor& compiled,
                                         const std::optional<double>& tolerance);
/// Compares all that a caller can see of a tensor: dtype, device, sizes, strides, values.
std::optional<Difference> compare_tensors(const at::Tensor& original, const at::Tensor& compiled,
                                          const std::optional<double>& tolerance, bool has_values = true);
/// Compares what autograd shows of a tensor: requires_grad and is_leaf.
std::optional<Difference> compare_history(const at::Tensor& original, const at::Tensor& compiled);

}  // namespace diptych::detail
