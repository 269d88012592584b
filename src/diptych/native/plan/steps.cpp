#include "diptych/native/plan/steps.h"

#include <c10/util/SmallVector.h>

#include <cstring>

#include "diptych/ops/related_operators.h"

namespace diptych::detail {

bool KernelStep::run(char* const* regions, Workspace& /*workspace*/) const {
  c10::SmallVector<void*, 16> from, to;
  for (const Place& input : inputs_) from.push_back(input.data(regions));
  for (const Place& output : outputs_) to.push_back(output.data(regions));
  bool is_wrong = false;
  if (code_->has_check) to.push_back(&is_wrong);
  code_->code->run(from.data(), to.data(), symbols_);
  return !is_wrong;
}

bool CopyStep::run(char* const* regions, Workspace& workspace) const {
  if (lies_alike_) {
    std::memcpy(to_.data(regions), from_.data(regions), static_cast<size_t>(from_.bytes()));
    return true;
  }
  const at::Tensor& from = workspace.windows[window_];
  const at::Tensor& to = workspace.windows[window_ + 1];
  point_at(from, from_.data(regions));
  point_at(to, to_.data(regions));
  to.copy_(from);
  return true;
}

std::optional<Product> Product::find(const Node& node) {
  const auto into = product_into(node.op);
  if (!into) return std::nullopt;
  const c10::OperatorHandle& handle = into->handle();
  if (node.operands.size() == 2) return Product(handle.typed<Plain>());
  const auto* beta = std::get_if<c10::IValue>(&node.operands[3]);
  const auto* alpha = std::get_if<c10::IValue>(&node.operands[4]);
  if (beta == nullptr || alpha == nullptr) return std::nullopt;
  return Product(handle.typed<Added>(), beta->toScalar(), alpha->toScalar());
}

void Product::operator()(at::Tensor* tensors) const {
  constexpr c10::DispatchKeySet kCpu(c10::DispatchKey::CPU);
  if (added_) {
    added_->redispatch(kCpu, tensors[0], tensors[1], tensors[2], beta_, alpha_, tensors[3]);
  } else {
    plain_->redispatch(kCpu, tensors[0], tensors[1], tensors[2]);
  }
}

bool ProductStep::run(char* const* regions, Workspace& workspace) const {
  at::Tensor* const windows = &workspace.windows[window_];
  for (size_t i = 0; i < operands_.size(); ++i) point_at(windows[i], operands_[i].data(regions));
  point_at(windows[operands_.size()], result_.data(regions));
  product_(windows);
  return true;
}

bool OperatorStep::run(char* const* regions, Workspace& workspace) const {
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs.push_back(workspace.windows[window_ + i]);
    point_at(inputs.back(), inputs_[i].data(regions));
  }
  const auto results = program_.run(std::move(inputs));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const at::Tensor& to = workspace.windows[window_ + inputs_.size() + i];
    point_at(to, outputs_[i].data(regions));
    to.copy_(results[i]);
  }
  return true;
}

}  // namespace diptych::detail
