#include "diptych/backends/native/plan/steps.h"

#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/SmallVector.h>

#include <cstring>
#include <string_view>

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

Product find_product(const Node& node, at::Scalar& beta, at::Scalar& alpha) {
  struct Row {
    std::string_view name;
    Product product;
    bool has_scalars;
  };
  using T = at::Tensor;
  using S = at::Scalar;
  static constexpr Row kRows[] = {
      {"aten.mm", [](T& out, const T* x, const S&, const S&) { at::cpu::mm_out(out, x[0], x[1]); }, false},
      {"aten.bmm", [](T& out, const T* x, const S&, const S&) { at::cpu::bmm_out(out, x[0], x[1]); }, false},
      {"aten.addmm",
       [](T& out, const T* x, const S& b, const S& a) { at::cpu::addmm_out(out, x[0], x[1], x[2], b, a); }, true},
      {"aten.baddbmm",
       [](T& out, const T* x, const S& b, const S& a) { at::cpu::baddbmm_out(out, x[0], x[1], x[2], b, a); }, true},
  };
  const std::string name = node.op.name();
  for (const Row& row : kRows) {
    if (row.name != name) continue;
    if (!row.has_scalars) return row.product;
    const auto* given_beta = std::get_if<c10::IValue>(&node.operands[3]);
    const auto* given_alpha = std::get_if<c10::IValue>(&node.operands[4]);
    if (given_beta == nullptr || given_alpha == nullptr) return nullptr;
    beta = given_beta->toScalar();
    alpha = given_alpha->toScalar();
    return row.product;
  }
  return nullptr;
}

bool ProductStep::run(char* const* regions, Workspace& workspace) const {
  at::Tensor* const windows = &workspace.windows[window_];
  for (size_t i = 0; i < operands_.size(); ++i) point_at(windows[i], operands_[i].data(regions));
  at::Tensor& result = windows[operands_.size()];
  point_at(result, result_.data(regions));
  product_(result, windows, beta_, alpha_);
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
