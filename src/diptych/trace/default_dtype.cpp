#include "diptych/trace/default_dtype.h"

#include <ATen/ops/_to_copy.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

#include "diptych/trace/run_on_meta.h"

namespace diptych::detail {
namespace {

// The tensors that an operator promotes, by the place of the argument; none if one is no whole number, or is chosen by.
std::vector<size_t> promoted_arguments(const c10::OperatorHandle& op, const OperatorPlan& plan,
                                       const torch::jit::Stack& stack) {
  const size_t begin = stack.size() - plan.takes_tensor.size();
  std::vector<size_t> found;
  for (size_t i = 0; i < plan.takes_tensor.size(); ++i) {
    const c10::IValue& argument = stack[begin + i];
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    const at::Tensor& tensor = argument.toTensor();
    const std::string& name = op.schema().arguments()[i].name();
    if (name == "condition" || name == "mask" || tensor.unsafeGetTensorImpl()->is_wrapped_number()) continue;
    if (!at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true)) return {};
    found.push_back(begin + i);
  }
  return found;
}

}  // namespace

void name_dtype(const OperatorPlan& plan, at::ScalarType result, Node& node) {
  const auto takes = [](const std::vector<bool>& arguments) {
    return std::find(arguments.begin(), arguments.end(), true) != arguments.end();
  };
  if (plan.dtype_argument < 0 || !plan.is_native || takes(plan.takes_tensor) || takes(plan.takes_list)) return;
  auto* const given = std::get_if<c10::IValue>(&node.operands[static_cast<size_t>(plan.dtype_argument)]);
  if (given != nullptr && given->isNone()) *given = c10::IValue(result);
}

void cast_whole_numbers(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                        torch::jit::Stack* stack) {
  const auto dtype = c10::get_default_dtype_as_scalartype();
  if (dtype == at::kFloat || !plan.is_native || !plan.is_pointwise || plan.dtype_argument >= 0) return;
  const auto places = promoted_arguments(op, plan, *stack);
  if (places.empty()) return;
  torch::jit::Stack trial(stack->end() - static_cast<std::ptrdiff_t>(plan.takes_tensor.size()), stack->end());
  if (!run_on_meta(recorder, op, plan, &trial, c10::kCPU) || !trial.back().isTensor()) return;
  const auto result = trial.back().toTensor().scalar_type();
  if (!at::isFloatingType(result) && !at::isComplexType(result)) return;
  for (const size_t i : places) {
    const at::Tensor& tensor = (*stack)[i].toTensor();
    (*stack)[i] = at::_to_copy(tensor, tensor.options().dtype(dtype));
  }
}

}  // namespace diptych::detail
