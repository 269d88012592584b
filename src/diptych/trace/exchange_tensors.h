// Exchanging tensors among the arguments of a boxed call for other tensors.
#pragma once
#include "diptych/trace/stack_tensors.h"

namespace diptych::detail {

/// Replaces each tensor among the arguments, elements of lists included, by what `exchange` returns for it.
template <class Exchange>
void exchange_each(const OperatorPlan& plan, torch::jit::Stack& stack, const Exchange& exchange) {
  const size_t begin = stack.size() - plan.takes_tensor.size();
  for (size_t i = 0; i < plan.takes_tensor.size(); ++i) {
    auto& argument = stack[begin + i];
    if (argument.isTensor()) {
      argument = exchange(argument.toTensor());
    } else if (plan.takes_list[i] && argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : argument.toTensorVector()) list.push_back(exchange(tensor));
      argument = std::move(list);
    } else if (plan.takes_list[i] && !argument.isNone()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : optional_tensors(argument)) {
        list.push_back(tensor && tensor->defined() ? std::optional(exchange(*tensor)) : std::nullopt);
      }
      argument = std::move(list);
    }
  }
}

/// Replaces each tensor among the arguments for which `is_foreign` returns true by what `stand_in` returns for it.
template <class IsForeign, class StandIn>
void exchange_tensors(const OperatorPlan& plan, torch::jit::Stack& stack, const IsForeign& is_foreign,
                      const StandIn& stand_in) {
  if (!any_tensor(stack, plan, is_foreign)) return;
  exchange_each(plan, stack,
                [&](const at::Tensor& tensor) -> at::Tensor { return is_foreign(tensor) ? stand_in(tensor) : tensor; });
}

}  // namespace diptych::detail
