// Comparing what a kernel computed with what the interpreter does: DIPTYCH_CHECK=kernels.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Compares the results of a kernel with the interpreter's. Integers and bools are equal; floats differ by no more than
/// their dtype's bound times the largest finite number among the inputs and the expected result, since a sum is rounded
/// in another order; infinities and NaN are in the same places.
/// Errors: InternalError names the nodes, the output, the position and both values of the first that differs, and the
/// files with the body and the inputs: `<name>.graph` and `<name>.safetensors` in the folder for temporary files, which
/// check_kernel_file() runs.
void check_kernel(const Graph& body, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& got,
                  const std::vector<at::Tensor>& expected);

/// Writes `<name>.graph` and `<name>.safetensors`, which check_kernel_file() runs. Errors: UserError for files that
/// can't be written.
void write_kernel_file(const Graph& body, const std::vector<at::Tensor>& inputs, const std::string& name);

/// Which elements of a result differ beyond the bound, as bools. `largest`: the largest finite number among the inputs.
at::Tensor differing_elements(const Graph& body, double largest, const at::Tensor& got, const at::Tensor& expected);

/// The largest finite number, by magnitude, in some tensors; 0 if there is none.
double largest_finite(const std::vector<at::Tensor>& tensors);

/// The place of an element, counted in rows.
std::vector<int64_t> position_of(int64_t index, at::IntArrayRef sizes);
/// The element at such a place, as text.
std::string element_text(const at::Tensor& tensor, int64_t index);

/// While one lives, kernels that this thread calls are checked, as those of all threads are with DIPTYCH_CHECK=kernels.
class KernelCheckScope {
 public:
  KernelCheckScope();
  ~KernelCheckScope();
  KernelCheckScope(const KernelCheckScope&) = delete;
  KernelCheckScope& operator=(const KernelCheckScope&) = delete;
};

/// Whether a kernel that this thread calls is to be checked.
bool is_kernel_checked();

}  // namespace diptych::detail
