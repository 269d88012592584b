#include "diptych/trace/functionalize.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <fmt/format.h>

#include <vector>

#include "diptych/base/error.h"
#include "diptych/graph/on_copies.h"
#include "diptych/trace/exchange_tensors.h"

namespace diptych::detail {
namespace {

namespace fn = at::functionalization::impl;
using torch::jit::Stack;

at::Tensor unwrapped(const at::Tensor& tensor) {
  if (!tensor.defined() || !fn::isFunctionalTensor(tensor)) return tensor;
  fn::sync(tensor);
  return fn::from_functional_tensor(tensor);
}

c10::IValue wrapped(const c10::IValue& result) {
  if (result.isTensor() && result.toTensor().defined()) return fn::to_functional_tensor(result.toTensor());
  if (!result.isTensorList()) return result;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : result.toTensorVector()) {
    list.push_back(tensor.defined() ? fn::to_functional_tensor(tensor) : tensor);
  }
  return list;
}

// Where no kernel counts versions, it is unknown whether the operator's own kernel does: if it does not, autograd takes
// what it has saved for unchanged.
void write(const at::Tensor& tensor, const at::Tensor& elements, bool counts) {
  if (!tensor.defined() || !fn::isFunctionalTensor(tensor)) return;
  if (counts && !tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  fn::replace_(tensor, elements);
  fn::commit_update(tensor);
  fn::sync(tensor);
}

void write(const c10::IValue& written, const c10::IValue& elements, bool counts) {
  if (written.isTensor()) return write(written.toTensor(), elements.toTensor(), counts);
  if (!written.isTensorList()) return;
  const auto tensors = written.toTensorVector(), copies = elements.toTensorVector();
  for (size_t i = 0; i < tensors.size(); ++i) write(tensors[i], copies[i], counts);
}

// Returns the argument that a result is.
const c10::IValue& argument_of(const c10::FunctionSchema& schema, const c10::Argument& result, const Stack& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) return given[i];
  }
  throw_user_error(fmt::format("[trace] {} returns an argument that it does not name", schema.name()));
}

// The kernel of functionalization.
void run_functionalized(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::AutoDispatchSkipFunctionalize below_functionalization;
  const OperatorPlan& plan = plan_for(op);
  const auto& schema = op.schema();
  const Stack given(stack->end() - static_cast<std::ptrdiff_t>(schema.arguments().size()), stack->end());
  Stack call = given;
  stack->resize(stack->size() - given.size());
  exchange_each(plan, call, unwrapped);
  on_copies(op)->callBoxed(&call);
  size_t next = 0;
  Stack results;
  for (const auto& result : schema.returns()) {
    results.push_back(is_written_argument(result) ? argument_of(schema, result, given) : wrapped(call[next++]));
  }
  const bool counts = !op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView);
  for (size_t i = 0; i < given.size(); ++i) {
    if (plan.writes[i]) write(given[i], call[next++], counts);
  }
  stack->insert(stack->end(), results.begin(), results.end());
}

}  // namespace

bool functionalize_on_copies(const c10::OperatorHandle& op) {
  if (!on_copies(op)) return false;
  static auto* registered = new std::vector<c10::RegistrationHandleRAII>();
  registered->push_back(c10::Dispatcher::singleton().registerImpl(
      op.operator_name(), c10::DispatchKey::Functionalize,
      c10::KernelFunction::makeFromBoxedFunction<&run_functionalized>(), std::nullopt, nullptr, "diptych"));
  return true;
}

}  // namespace diptych::detail
