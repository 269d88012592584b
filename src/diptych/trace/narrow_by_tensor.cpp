#include "diptych/trace/narrow_by_tensor.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>

namespace diptych::detail {
namespace {

// The first index: as it is, or from the end; one out of range stays so.
at::Tensor first_index(const at::Tensor& start, int64_t size) {
  const at::Tensor from_end = at::where(start < -size, at::Scalar(size), start + size);
  return at::where(start < 0, from_end, start);
}

}  // namespace

bool narrow_by_tensor(Recorder& recorder, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto kNarrow = c10::Dispatcher::singleton().findSchemaOrThrow("aten::narrow", "Tensor");
  if (!(op == kNarrow)) return false;
  if (recorder.phase() == Phase::kForward && recorder.asked_values().may_ask()) return false;
  constexpr size_t kNumArguments = 4;
  const size_t begin = stack->size() - kNumArguments;
  const at::Tensor self = (*stack)[begin].toTensor(), start = (*stack)[begin + 2].toTensor();
  if (self.dim() == 0 || start.dim() != 0 || !at::isIntegralType(start.scalar_type(), /*includeBool=*/false))
    return false;
  const int64_t dim = at::maybe_wrap_dim((*stack)[begin + 1].toInt(), self.dim());
  const int64_t length = (*stack)[begin + 3].toInt();
  if (length < 0 || length > self.size(dim)) return false;
  Parts::Indices indices;
  indices.resize(static_cast<size_t>(dim));
  const at::Tensor offsets = at::arange(length, at::TensorOptions(at::kLong).device(start.device()));
  indices.push_back(first_index(start.to(at::kLong), self.size(dim)) + offsets);
  at::Tensor part = recorder.parts().take(self, indices);
  stack->resize(begin);
  stack->emplace_back(std::move(part));
  return true;
}

}  // namespace diptych::detail
