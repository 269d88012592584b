#include "diptych/trace/host_numbers.h"

#include <ATen/native/TypeProperties.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "diptych/ops/related_operators.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/levels.h"
#include "diptych/trace/operator_plan.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::detail {
namespace {

using torch::jit::Stack;

std::atomic<const OpenNumbers*> numbers_of_host{nullptr};

// What a tensor holds that LibTorch's binding has made of a number without knowing its value.
bool holds_no_value(const at::Tensor& number) {
  constexpr int64_t kNoInteger = 7777777;
  if (number.scalar_type() == at::kDouble) return std::isnan(*number.const_data_ptr<double>());
  return number.scalar_type() == at::kLong && *number.const_data_ptr<int64_t>() == kNoInteger;
}

bool may_be_open(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.device().is_cpu() && !is_stand_in(tensor) &&
         holds_no_value(tensor);
}

bool is_open(const OpenNumbers& numbers, const c10::SymInt& number) {
  return number.is_heap_allocated() && numbers.of_node(*number.toSymNodeImplUnowned()).defined();
}

at::Tensor open_number(const OpenNumbers& numbers, const c10::IValue& argument) {
  if (argument.isSymFloat()) return numbers.of_node(*argument.toSymFloat().toSymNodeImplUnowned());
  if (argument.isSymInt()) return numbers.of_node(*argument.toSymInt().toSymNodeImplUnowned());
  if (!argument.isTensor() || !argument.toTensor().defined()) return {};
  const at::Tensor& tensor = argument.toTensor();
  if (!tensor.unsafeGetTensorImpl()->is_wrapped_number()) return {};
  const at::Tensor number = value_of_dead(tensor);  // a transform that has ended may have wrapped it
  return may_be_open(number) ? numbers.of_tensor(number) : at::Tensor();
}

// Sizes and the like, which operators take by their values.
bool holds_open(const OpenNumbers& numbers, const c10::IValue& argument) {
  if (!argument.isSymIntList()) return false;
  const std::vector<c10::SymInt> list = argument.toSymIntVector();
  return std::any_of(list.begin(), list.end(), [&](const c10::SymInt& one) { return is_open(numbers, one); });
}

c10::IValue with_values(std::vector<c10::SymInt> list) {
  for (c10::SymInt& one : list) one = c10::SymInt(one.guard_int(__FILE__, __LINE__));
  return c10::IValue(std::move(list));
}

c10::IValue value_of(const c10::IValue& number) {
  if (number.isSymInt()) return number.toSymInt().guard_int(__FILE__, __LINE__);
  return number.toSymFloat().guard_float(__FILE__, __LINE__);
}

// The dtype that the arguments are promoted to, if `number` is among them.
at::ScalarType promoted(c10::ArrayRef<c10::IValue> arguments, size_t place, const at::Tensor& number) {
  at::native::ResultTypeState state;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i == place) {
      state = at::native::update_result_type_state(number, state);
    } else if (arguments[i].isTensor() && arguments[i].toTensor().defined()) {
      state = at::native::update_result_type_state(arguments[i].toTensor(), state);
    }
  }
  return at::native::result_type(state);
}

// A number is promoted as a number; a tensor of one element that is not marked as one may make a result wider.
at::Tensor marked_like(const at::Tensor& number, bool as_number) {
  at::Tensor marked = at::scalar_tensor(0.0, at::TensorOptions(number.scalar_type()).device(at::kMeta));
  marked.unsafeGetTensorImpl()->set_wrapped_number(as_number);
  return marked;
}

// The graph holds plain tensors, so the number is converted where it would be promoted in another way.
at::Tensor as_operand(c10::ArrayRef<c10::IValue> arguments, size_t place, const at::Tensor& number) {
  const at::ScalarType as_tensor = promoted(arguments, place, marked_like(number, false));
  const at::ScalarType as_number = promoted(arguments, place, marked_like(number, true));
  return as_tensor == as_number ? number : number.to(as_number);
}

// Whether a tensor does not do for an open number: for an integer among integers, whose dtype may be narrower, among
// halves, which are bounded, and where eager raises an error by the value, as of an exponent or of a fill.
bool needs_value(const Op& op, c10::ArrayRef<c10::IValue> arguments, size_t place, const at::Tensor& number) {
  const NumberRule rule = number_rule(op);
  const bool is_integer = at::isIntegralType(number.scalar_type(), /*includeBool=*/true);
  if (!is_integer && rule == NumberRule::kWrapped) return false;
  const auto met = rule == NumberRule::kFills && arguments[0].isTensor()
                       ? arguments[0].toTensor().scalar_type()
                       : promoted(arguments, place, marked_like(number, true));
  return at::isIntegralType(met, /*includeBool=*/is_integer) || met == at::kHalf || met == at::kComplexHalf;
}

c10::IValue closed(const OpenNumbers& numbers, const c10::IValue& argument) {
  if (!argument.isTensor()) return value_of(argument);
  const at::Tensor open = value_of_dead(argument.toTensor());
  const at::Scalar value = numbers.value_of_tensor(open);
  const PauseTraceGuard real;
  at::Tensor number = at::scalar_tensor(value, open.options());
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  return number;
}

// Numbers where the form of an operator for tensors takes tensors.
void replace_numbers(const OpenNumbers& numbers, const OperatorPlan& plan, Stack& stack, size_t begin) {
  const auto arguments = [&] { return c10::ArrayRef<c10::IValue>(stack.data() + begin, stack.size() - begin); };
  for (size_t i = 0; i < arguments().size(); ++i) {
    const bool takes_tensor = plan.takes_tensor[i];
    c10::IValue& argument = stack[begin + i];
    if (const at::Tensor number = open_number(numbers, argument); number.defined()) {
      argument = takes_tensor ? c10::IValue(as_operand(arguments(), i, number)) : closed(numbers, argument);
    } else if (takes_tensor && argument.isScalar()) {
      const at::Scalar given = argument.toScalar();
      argument = as_operand(arguments(), i, at::scalar_tensor(given, given.type()));
    }
  }
}

}  // namespace

void set_open_numbers(const OpenNumbers* numbers) { numbers_of_host = numbers; }

bool call_with_open_numbers(const c10::OperatorHandle& op, Stack* stack) {
  const OpenNumbers* const numbers = numbers_of_host;
  if (numbers == nullptr) return false;
  const size_t begin = stack->size() - op.schema().arguments().size();
  const c10::ArrayRef<c10::IValue> arguments(stack->data() + begin, stack->size() - begin);
  bool has_open = false, are_needed = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (holds_open(*numbers, arguments[i])) (*stack)[begin + i] = with_values(arguments[i].toSymIntVector());
    const at::Tensor number = open_number(*numbers, arguments[i]);
    has_open = has_open || number.defined();
    are_needed = are_needed || (number.defined() && needs_value(Op(op), arguments, i, number));
  }
  if (!has_open) return false;
  if (are_needed) {
    for (auto argument = stack->begin() + static_cast<int64_t>(begin); argument != stack->end(); ++argument) {
      if (open_number(*numbers, *argument).defined()) *argument = closed(*numbers, *argument);
    }
    return false;
  }
  const Op called = form_for_tensors(Op(op)).value_or(Op(op));
  replace_numbers(*numbers, plan_for(called.handle()), *stack, begin);
  called.handle().callBoxed(stack);
  return true;
}

}  // namespace diptych::detail
