#include "diptych/backends/native/fused_call.h"

#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "diptych/backends/native/kernel_check.h"
#include "diptych/backends/native/result_pool.h"

namespace diptych::detail {

namespace {

// Tensors that stand for others, or have no memory.
constexpr c10::DispatchKeySet kNotPlain{c10::DispatchKey::Fake,
                                        c10::DispatchKey::Functionalize,
                                        c10::DispatchKey::Python,
                                        c10::DispatchKey::FuncTorchBatched,
                                        c10::DispatchKey::FuncTorchGradWrapper,
                                        c10::DispatchKey::ZeroTensor};

}  // namespace

FusedCall::FusedCall(std::shared_ptr<const Graph> body)
    : body_(std::move(body)), code_(code_of(body_)), program_(*body_), shapes_(*body_, code_) {}

FusedCall::Fit FusedCall::fit(const CallShapes::Tensor& slot, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.device().is_cpu()) return Fit::kNone;
  const auto* impl = tensor.unsafeGetTensorImpl();
  const bool is_alike = tensor.scalar_type() == slot.dtype && impl->sizes() == at::IntArrayRef(slot.sizes) &&
                        !impl->is_conj() && !impl->is_neg() && impl->has_storage() &&
                        !impl->key_set().has_any(kNotPlain);
  if (!is_alike) return Fit::kNone;
  if (slot.is_empty) return Fit::kExact;
  const auto strides = impl->strides();
  for (size_t dim = 0; dim < slot.sizes.size(); ++dim) {
    if (slot.sizes[dim] != 1 && strides[dim] != slot.strides[dim]) return Fit::kOtherStrides;
  }
  return Fit::kExact;
}

// Copies inputs with other strides. Returns whether the kernel can take the inputs.
bool FusedCall::make_fit(const CallShapes& shapes, std::vector<at::Tensor>& inputs) {
  if (inputs.size() != shapes.inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Fit found = fit(shapes.inputs[i], inputs[i]);
    if (found == Fit::kExact) continue;
    // Copies are dense: others would have gaps to allocate, or elements that share a place.
    if (found == Fit::kNone || !shapes.inputs[i].is_dense) return false;
    at::Tensor copy = at::empty_strided(shapes.inputs[i].sizes, shapes.inputs[i].strides, inputs[i].options());
    copy.copy_(inputs[i]);
    inputs[i] = std::move(copy);
  }
  return true;
}

// Returns none where the kernel's check fails; the inputs then are what they were.
std::optional<std::vector<at::Tensor>> FusedCall::run_kernel(const CallShapes& shapes, std::vector<at::Tensor>& inputs,
                                                             bool may_reuse) const {
  c10::SmallVector<void*, 16> from, to;
  for (const at::Tensor& input : inputs) from.push_back(const_cast<void*>(input.const_data_ptr()));
  std::vector<at::Tensor> outputs(shapes.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const CallShapes::Overwrite& overwrite : shapes.overwrites[i]) {
      at::Tensor& input = inputs[overwrite.input];
      if (may_reuse && !outputs[i].defined() && may_overwrite(overwrite.needs, input)) outputs[i] = std::move(input);
    }
    const CallShapes::Tensor& made = shapes.outputs[i];
    if (!outputs[i].defined()) outputs[i] = new_result(made.sizes, made.strides, made.dtype);
    to.push_back(outputs[i].mutable_data_ptr());
  }
  bool is_wrong = false;
  if (code_->has_check) to.push_back(&is_wrong);
  if (!shapes.is_empty) code_->code->run(from.data(), to.data(), shapes.symbols);
  if (is_wrong) return std::nullopt;
  return outputs;
}

std::vector<at::Tensor> FusedCall::run_checked(const CallShapes& shapes, std::vector<at::Tensor>&& inputs) const {
  auto got = run_kernel(shapes, inputs, /*may_reuse=*/false);
  std::vector<at::Tensor> copies = inputs;
  auto expected = program_->run(std::move(copies));
  if (!got) return expected;
  check_kernel(*body_, inputs, *got, expected);
  return *std::move(got);
}

std::vector<at::Tensor> FusedCall::run(std::vector<at::Tensor>&& inputs, const RunOptions& options) const {
  if (!times_kernels()) [[likely]]
    return run_untimed(std::move(inputs), options);
  const auto start = std::chrono::steady_clock::now();
  auto outputs = run_untimed(std::move(inputs), options);
  code_->times->add(std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
  return outputs;
}

std::vector<at::Tensor> FusedCall::run_untimed(std::vector<at::Tensor>&& inputs, const RunOptions& options) const {
  const auto shapes = code_->code == nullptr || options.differentiable ? nullptr : shapes_.find(inputs);
  if (shapes == nullptr || !make_fit(*shapes, inputs)) {
    return program_->run(std::move(inputs), {.differentiable = options.differentiable});
  }
  if (is_kernel_checked() && !shapes->is_empty) return run_checked(*shapes, std::move(inputs));
  if (auto outputs = run_kernel(*shapes, inputs, /*may_reuse=*/true)) return *std::move(outputs);
  return program_->run(std::move(inputs));
}

}  // namespace diptych::detail
