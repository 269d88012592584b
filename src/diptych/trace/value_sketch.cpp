#include "diptych/trace/value_sketch.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "diptych/graph/tensor_meta.h"
#include "diptych/ops/dispatch_keys.h"

namespace diptych::detail {
namespace {

bool has_elements(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == c10::kStrided && !tensor.is_quantized() && !tensor.is_nested() &&
         !tensor.is_meta() && tensor.has_storage() && !tensor._is_zerotensor() &&
         (tensor.numel() == 0 || tensor.storage().data() != nullptr);
}

at::Tensor as_doubles(const at::Tensor& tensor) {
  at::Tensor plain = tensor.resolve_conj().resolve_neg();
  if (plain.is_complex()) plain = at::view_as_real(plain);
  return plain.to(at::kCPU, at::kDouble).contiguous();
}

bool are_near(double a, double b, double margin) { return a == b || std::abs(a - b) <= margin; }

}  // namespace

ValueSketch ValueSketch::of(const at::Tensor& tensor) {
  ValueSketch sketch;
  if (!has_elements(tensor)) return sketch;
  const at::AutoDispatchBelowADInplaceOrView below;
  const BelowTraceGuard plain(c10::autocast_dispatch_keyset | c10::python_ks | kNotOnMeta);
  const at::Tensor doubles = as_doubles(tensor);
  sketch.is_known = true;
  sketch.dtype = tensor.scalar_type();
  sketch.sizes = tensor.sizes().vec();
  const double* const elements = doubles.const_data_ptr<double>();
  const int64_t count = doubles.numel();
  for (int64_t i = 0; i < count; ++i) {
    const double element = elements[i];
    if (i < 3) sketch.first.push_back(element);
    if (!std::isfinite(element)) {
      ++sketch.num_special;
      continue;
    }
    sketch.sum += element;
    sketch.weighted_sum += element * (static_cast<double>(i + 1) / static_cast<double>(count));
    sketch.largest = std::max(sketch.largest, std::abs(element));
  }
  return sketch;
}

bool ValueSketch::is_near(const ValueSketch& other, double tolerance) const {
  if (!is_known || !other.is_known) return true;
  if (!same_shape(other) || num_special != other.num_special) return false;
  const double scale = std::max(largest, other.largest);
  double count = 1;
  for (const int64_t size : sizes) count *= static_cast<double>(size);
  const double margin = tolerance * scale;
  for (size_t i = 0; i < first.size(); ++i) {
    const bool both_nan = std::isnan(first[i]) && std::isnan(other.first[i]);
    if (!both_nan && !are_near(first[i], other.first[i], margin)) return false;
  }
  // Roundings of the elements are independent of each other.
  const double wide = std::max(tolerance, 1e-15) * scale * std::sqrt(std::max(count, 1.0));
  return are_near(sum, other.sum, wide) && are_near(weighted_sum, other.weighted_sum, wide);
}

std::string ValueSketch::str() const {
  if (!is_known) return "a tensor without elements to show";
  std::vector<std::string> shown;
  for (const double element : first) shown.push_back(fmt::format("{:.6g}", element));
  return fmt::format("{}[{}]: {}", dtype_name(dtype), fmt::join(sizes, ","), fmt::join(shown, ", "));
}

}  // namespace diptych::detail
