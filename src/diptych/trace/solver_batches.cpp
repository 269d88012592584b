#include "diptych/trace/solver_batches.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

namespace diptych::detail {
namespace {

constexpr size_t kNumArguments = 5;  // factors, pivots, right sides, left, adjoint

c10::IntArrayRef batch_of(const at::Tensor& tensor, int64_t num_dims) {
  return tensor.sizes().slice(0, tensor.dim() - num_dims);
}

at::Tensor laid_out(const at::Tensor& tensor, int64_t num_dims, c10::IntArrayRef batch) {
  std::vector<int64_t> sizes = at::infer_size(batch_of(tensor, num_dims), batch);
  sizes.insert(sizes.end(), tensor.sizes().end() - num_dims, tensor.sizes().end());
  return tensor.expand(sizes).clone(at::MemoryFormat::Contiguous);
}

}  // namespace

void expand_factors(torch::jit::Stack* stack) {
  c10::IValue* const arguments = stack->data() + stack->size() - kNumArguments;
  const at::Tensor factors = arguments[0].toTensor(), pivots = arguments[1].toTensor();
  const at::Tensor right_sides = arguments[2].toTensor();
  const c10::DimVector batch(batch_of(right_sides, 2));
  if (factors.dim() == 2 || batch_of(factors, 2) == batch) return;
  arguments[0] = laid_out(factors, 2, batch);
  arguments[1] = laid_out(pivots, 1, batch);
}

}  // namespace diptych::detail
