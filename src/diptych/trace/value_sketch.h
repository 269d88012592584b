// A short description of a tensor that is too large to keep, precise enough to tell it from another one.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

namespace diptych::detail {

/// Sums and first elements of a tensor at the time when the sketch was made.
struct ValueSketch {
  bool is_known = false;  ///< false for a tensor without elements to read: undefined, sparse, without memory
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes;
  double sum = 0;
  double weighted_sum = 0;  ///< tells orders of the same elements apart
  double largest = 0;
  int64_t num_special = 0;  ///< infinities and NaNs
  c10::SmallVector<double, 3> first;

  static ValueSketch of(const at::Tensor& tensor);
  /// Whether both may be sketches of one value, computed in two ways that agree to `tolerance`.
  bool is_near(const ValueSketch& other, double tolerance) const;
  bool same_shape(const ValueSketch& other) const { return dtype == other.dtype && sizes == other.sizes; }
  /// "f32[3]: 0.5, 1, 1.5".
  std::string str() const;
};

}  // namespace diptych::detail
