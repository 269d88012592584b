// Building the body of a kernel: equal values are made once, and what is constant is computed at once.
#pragma once
#include <string_view>
#include <unordered_map>
#include <vector>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

class KernelBuilder {
 public:
  /// A number in the nearest form that `dtype` has. Requires: a dtype that kernels compute with or a half.
  int32_t constant(const at::Scalar& number, at::ScalarType dtype);
  int32_t index(const IndexMap& map);
  int32_t load(int32_t input, at::ScalarType dtype, const IndexMap& map, std::optional<LoadMask> mask = {});
  int32_t scalar(std::string_view op, std::vector<int32_t> operands);
  int32_t cast(int32_t value, at::ScalarType dtype);
  /// A value reduced over dims; with none, the value as it is.
  int32_t reduce(std::string_view reduction, int32_t operand, DimSet over, at::ScalarType dtype);

  at::ScalarType dtype(int32_t value) const { return values_[value].dtype; }
  const std::vector<KernelValue>& values() const { return values_; }

 private:
  int32_t add(KernelValue value);
  // The value as a constant, also where it is one that was rounded to a half; none if it is no constant.
  const KernelConstant* constant_of(int32_t value) const;
  int32_t fold(const ScalarOp& op, at::ScalarType dtype, const std::vector<int32_t>& operands);

  std::vector<KernelValue> values_;
  std::unordered_multimap<size_t, int32_t> by_hash_;
};

/// Leaves out values that no store needs.
void remove_unused_values(Kernel& kernel);

}  // namespace diptych::detail
