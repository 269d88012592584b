#include "diptych/compile/check_compare.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "diptych/graph/tensor_meta.h"
#include "diptych/interpreter/run_guards.h"

namespace diptych::detail {
namespace {

struct DtypeTolerance {
  at::ScalarType dtype;
  double tolerance;
};
// Sums are added in another order than in eager, and rounded on the way.
constexpr std::array<DtypeTolerance, 7> kTolerances{{{at::kDouble, 1e-9},
                                                     {at::kFloat, 1e-4},
                                                     {at::kHalf, 1e-2},
                                                     {at::kBFloat16, 5e-2},
                                                     {at::kComplexDouble, 1e-9},
                                                     {at::kComplexFloat, 1e-4},
                                                     {at::kComplexHalf, 1e-2}}};

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

// Returns the strides of the dimensions with more than one element; the other strides have no effect.
std::vector<int64_t> strides_one_can_see(const at::Tensor& tensor) {
  std::vector<int64_t> strides;
  for (int64_t dim = 0; dim < tensor.dim() && tensor.numel() > 0; ++dim) {
    if (tensor.size(dim) > 1) strides.push_back(tensor.stride(dim));
  }
  return strides;
}

// Returns the elements as doubles; real and imaginary parts are elements of their own.
at::Tensor plain_doubles(const at::Tensor& tensor) {
  at::Tensor plain = tensor.resolve_conj().resolve_neg();
  if (plain.is_complex()) plain = at::view_as_real(plain);
  return plain.to(at::kCPU, at::kDouble).contiguous().view({-1});
}

bool are_close(double a, double b, double margin) {
  return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= margin;
}

std::string elements(const double* values, int64_t from, int64_t count) {
  std::vector<std::string> shown;
  for (int64_t i = from; i < std::min(count, from + 3); ++i) shown.push_back(fmt::format("{:.6g}", values[i]));
  return fmt::format("{}{}", fmt::join(shown, ", "), from + 3 < count ? ", ..." : "");
}

}  // namespace

bool is_usable(const at::Tensor& tensor) {
  try {
    tensor.grad_fn();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

double tolerance_for(at::ScalarType dtype, const std::optional<double>& chosen) {
  if (chosen) return *chosen;
  const auto* row =
      std::find_if(kTolerances.begin(), kTolerances.end(), [&](const auto& r) { return r.dtype == dtype; });
  return row == kTolerances.end() ? 0 : row->tolerance;
}

std::optional<Difference> compare_values(const at::Tensor& original, const at::Tensor& compiled,
                                         const std::optional<double>& tolerance) {
  const RunBelowAutograd below;
  const c10::impl::ExcludeDispatchKeyGuard no_modes(c10::python_ks);
  const at::Tensor left = plain_doubles(original), right = plain_doubles(compiled);
  const double* const a = left.const_data_ptr<double>();
  const double* const b = right.const_data_ptr<double>();
  const int64_t count = left.numel();
  double largest = 1;
  for (int64_t i = 0; i < count; ++i) {
    if (std::isfinite(a[i])) largest = std::max(largest, std::abs(a[i]));
  }
  const double margin = tolerance_for(original.scalar_type(), tolerance) * largest;
  for (int64_t i = 0; i < count; ++i) {
    if (are_close(a[i], b[i], margin)) continue;
    const std::string from = i == 0 ? "" : fmt::format("from element {} ", i);
    return Difference{"the values", from + elements(a, i, count), from + elements(b, i, count)};
  }
  return std::nullopt;
}

std::optional<Difference> compare_tensors(const at::Tensor& original, const at::Tensor& compiled,
                                          const std::optional<double>& tolerance, bool has_values) {
  if (original.defined() != compiled.defined()) {
    const auto state = [](const at::Tensor& t) { return t.defined() ? "a tensor" : "none"; };
    return Difference{"what is there", state(original), state(compiled)};
  }
  if (!original.defined()) return std::nullopt;
  if (original.scalar_type() != compiled.scalar_type()) {
    return Difference{"the dtype", dtype_name(original.scalar_type()), dtype_name(compiled.scalar_type())};
  }
  if (original.device() != compiled.device()) {
    return Difference{"the device", original.device().str(), compiled.device().str()};
  }
  if (original.layout() != compiled.layout()) {
    return Difference{"the layout", c10::str(original.layout()), c10::str(compiled.layout())};
  }
  if (original.layout() != c10::kStrided || original.is_quantized()) return std::nullopt;
  const auto list = [](const auto& numbers) { return fmt::format("[{}]", fmt::join(numbers, ",")); };
  if (original.sizes() != compiled.sizes()) {
    return Difference{"the sizes", list(original.sizes()), list(compiled.sizes())};
  }
  const auto a = strides_one_can_see(original), b = strides_one_can_see(compiled);
  if (a != b) return Difference{"the strides", list(a), list(b)};
  return has_values ? compare_values(original, compiled, tolerance) : std::nullopt;
}

std::optional<Difference> compare_history(const at::Tensor& original, const at::Tensor& compiled) {
  if (!original.defined() || !compiled.defined() || !is_usable(original) || !is_usable(compiled)) return std::nullopt;
  const auto fact = [](const char* what, bool a, bool b) {
    return a == b ? std::nullopt : std::optional(Difference{what, yes_or_no(a), yes_or_no(b)});
  };
  if (auto found = fact("requires_grad", original.requires_grad(), compiled.requires_grad())) return found;
  return fact("is_leaf", original.is_leaf(), compiled.is_leaf());
}

}  // namespace diptych::detail
