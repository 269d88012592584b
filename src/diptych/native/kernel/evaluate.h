// The reference evaluator of kernels: the oracle of every kernel that is made into code. Obviously right and slow: each
// value becomes a dense array over its domain, one after the other.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// A run of elements that a kernel reads or writes; element 0 is the first.
struct KernelMemory {
  at::ScalarType dtype = at::kFloat;
  void* data = nullptr;
  int64_t count = 0;

  /// From a tensor's first element to the end of its storage, whatever its strides.
  /// Errors: UserError for a tensor that is not strided memory of the CPU, or whose conj() or neg() is still to do.
  static KernelMemory of(const at::Tensor& tensor);
};

/// Computes all values, from the inputs as they are, and then does the stores in their order. Sums of floats, of
/// `store add` too, are those of f64, rounded once; integers wrap.
/// Requires: a kernel that verifies.
/// Errors: UserError if memory or symbols are too few or of another dtype, an extent is negative, the largest of no
/// elements is asked for, or an access lies outside of its memory: it names the line, the element and the point.
void evaluate(const Kernel& kernel, const std::vector<KernelMemory>& inputs, const std::vector<KernelMemory>& outputs,
              const std::vector<int64_t>& symbols);

}  // namespace diptych::detail
