#include "diptych/trace/other_fills.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/index_fill.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace diptych::detail {
namespace {

c10::OperatorHandle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

// Which elements along `dim` the index names, in a shape that expands to that of `self`.
at::Tensor mask_of(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  const int64_t rank = self.dim(), size = rank == 0 ? 1 : self.size(dim);
  std::vector<int64_t> sizes(static_cast<size_t>(rank), 1);
  if (rank > 0) sizes[static_cast<size_t>(dim)] = size;
  return at::zeros({size}, self.options().dtype(at::kBool)).index_fill(0, index, true).view(sizes);
}

}  // namespace

bool fill_by_mask(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto kFill = find("aten::index_fill", "int_Tensor"),
                    kFillInPlace = find("aten::index_fill_", "int_Tensor");
  const bool is_in_place = op == kFillInPlace;
  if (!is_in_place && !(op == kFill)) return false;
  const size_t begin = stack->size() - 4;
  const at::Tensor self = (*stack)[begin].toTensor(), index = (*stack)[begin + 2].toTensor();
  const at::Tensor value = (*stack)[begin + 3].toTensor();
  if (value.dim() != 0 || value.scalar_type() != self.scalar_type()) return false;
  const at::Tensor mask = mask_of(self, at::maybe_wrap_dim((*stack)[begin + 1].toInt(), self.dim()), index);
  at::Tensor filled = at::where(mask, value, self);
  if (is_in_place) filled = self.copy_(filled);
  stack->resize(begin);
  stack->emplace_back(std::move(filled));
  return true;
}

bool zero_by_fill(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto kZero = find("aten::zero_", "");
  if (!(op == kZero) || !stack->back().toTensor().is_complex()) return false;
  stack->back().toTensor().fill_(0);
  return true;
}

}  // namespace diptych::detail
