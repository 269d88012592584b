#include "diptych/native/call/fused_call.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "diptych/native/call/call_fit.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/memory/result_pool.h"

namespace diptych::detail {

FusedCall::FusedCall(std::shared_ptr<const Graph> body)
    : body_(std::move(body)), code_(code_of(body_)), program_(*body_), shapes_(*body_, code_) {}

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
  if (shapes == nullptr || !make_fit(shapes->inputs, inputs)) {
    return program_->run(std::move(inputs), {.differentiable = options.differentiable});
  }
  if (is_kernel_checked() && !shapes->is_empty) return run_checked(*shapes, std::move(inputs));
  if (auto outputs = run_kernel(*shapes, inputs, /*may_reuse=*/true)) return *std::move(outputs);
  return program_->run(std::move(inputs));
}

}  // namespace diptych::detail
