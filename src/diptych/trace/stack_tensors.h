// The tensors among the arguments of a boxed call.
#pragma once
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

/// Calls `visit` for each tensor among the arguments, which end the stack, until it returns true. Returns whether it
/// did.
template <class Visit>
bool any_tensor(const torch::jit::Stack& stack, const OperatorPlan& plan, const Visit& visit) {
  const size_t begin = stack.size() - plan.takes_tensor.size();
  for (size_t i = 0; i < plan.takes_tensor.size(); ++i) {
    const auto& argument = stack[begin + i];
    if (argument.isTensor()) {
      if (visit(argument.toTensor())) return true;
    } else if (plan.takes_list[i] && argument.isTensorList()) {
      for (const at::Tensor& tensor : argument.toTensorList()) {
        if (visit(tensor)) return true;
      }
    } else if (plan.takes_list[i] && !argument.isNone()) {
      for (const std::optional<at::Tensor>& tensor : optional_tensors(argument)) {
        if (tensor && visit(*tensor)) return true;
      }
    }
  }
  return false;
}

/// Calls `visit` for each tensor that the operator writes to. LibTorch's own operators write to their first argument,
/// which may be a list, or are composites.
template <class Visit>
void each_written(const torch::jit::Stack& stack, const OperatorPlan& plan, const Visit& visit) {
  const size_t begin = stack.size() - plan.takes_tensor.size();
  for (size_t i = 0; plan.mutates && i < plan.takes_tensor.size(); ++i) {
    const bool is_written = plan.is_native ? i == 0 : i < plan.writes.size() && plan.writes[i];
    if (!is_written) continue;
    const auto& argument = stack[begin + i];
    if (argument.isTensor()) visit(argument.toTensor());
    if (!argument.isTensorList()) continue;
    for (const at::Tensor& tensor : argument.toTensorList()) visit(tensor);
  }
}

/// Whether an index of this dtype is a mask.
inline bool is_mask_dtype(at::ScalarType dtype) { return dtype == at::kBool || dtype == at::kByte; }

/// Whether a number that the call returns, or the shape of a result, depends on elements: the operator is such a one,
/// or an index is a mask, whose true elements the result has.
inline bool reads_values(const OperatorPlan& plan, const torch::jit::Stack& stack) {
  if (plan.reads_values || !plan.may_select_by_mask) return plan.reads_values;
  const size_t begin = stack.size() - plan.takes_tensor.size();
  for (size_t i = 0; i < plan.takes_list.size(); ++i) {
    if (!plan.takes_list[i] || stack[begin + i].isNone()) continue;
    for (const std::optional<at::Tensor>& index : optional_tensors(stack[begin + i])) {
      if (index && index->defined() && is_mask_dtype(index->scalar_type())) return true;
    }
  }
  return false;
}

}  // namespace diptych::detail
