#include "diptych/graph/on_copies.h"

#include <ATen/ops/clone.h>

#include <algorithm>

namespace diptych::detail {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_list(const c10::TypePtr& type) { return type->kind() == c10::TypeKind::ListType; }

// Whether a type is a tensor that may be absent, or a list of tensors.
bool can_be_copied(const c10::TypePtr& type) {
  if (is_list(type)) return type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::TensorType;
  return type->isSubtypeOf(*c10::OptionalType::ofTensor()) && type->kind() != c10::TypeKind::NoneType;
}

bool can_work_on_copies(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  if (!schema.is_mutable() || op.hasTag(at::Tag::inplace_view)) return false;
  const auto fits = [](const c10::Argument& argument) {
    if (holds_object(argument.type())) return false;
    return argument.alias_info() == nullptr || (is_written(argument) && can_be_copied(argument.type()));
  };
  return std::all_of(schema.arguments().begin(), schema.arguments().end(), fits) &&
         std::all_of(schema.returns().begin(), schema.returns().end(), fits);
}

std::vector<c10::Argument> returns_with_copies(const c10::FunctionSchema& schema) {
  std::vector<c10::Argument> returns;
  for (const auto& result : schema.returns()) {
    if (!is_written_argument(result)) returns.push_back(result);
  }
  for (const auto& given : schema.arguments()) {
    if (!is_written(given)) continue;
    const bool list = is_list(given.type());
    returns.emplace_back("", list ? given.type() : c10::TypePtr(c10::TensorType::get()));
  }
  return returns;
}

c10::IValue copy_of(const c10::IValue& written) {
  if (written.isTensor()) return written.toTensor().defined() ? at::clone(written.toTensor()) : at::Tensor();
  if (!written.isTensorList()) return written;
  c10::List<at::Tensor> copies;
  for (const at::Tensor& tensor : written.toTensorVector()) copies.push_back(at::clone(tensor));
  return copies;
}

bool is_on_meta(const c10::IValue& written) {
  if (written.isTensor()) return written.toTensor().is_meta();
  const auto list = written.isTensorList() ? written.toTensorVector() : std::vector<at::Tensor>();
  return std::any_of(list.begin(), list.end(), [](const at::Tensor& tensor) { return tensor.is_meta(); });
}

// The kernel of all forms.
void run_on_copies(const c10::OperatorHandle& form, c10::Stack* stack) {
  const c10::OperatorHandle op = original_of(form);
  const auto& arguments = op.schema().arguments();
  const auto& returns = op.schema().returns();
  const auto begin = stack->end() - static_cast<std::ptrdiff_t>(arguments.size());
  c10::Stack given(begin, stack->end()), copies;
  stack->erase(begin, stack->end());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!is_written(arguments[i])) continue;
    given[i] = copy_of(given[i]);
    copies.push_back(given[i].isNone() ? c10::IValue(at::Tensor()) : given[i]);
  }
  // Without results of its own there is nothing that a kernel for shapes could tell, and there may be none.
  const bool only_writes = std::all_of(returns.begin(), returns.end(), is_written_argument);
  if (!only_writes || std::none_of(copies.begin(), copies.end(), is_on_meta)) op.callBoxed(&given);
  for (size_t i = 0; !only_writes && i < returns.size(); ++i) {
    if (!is_written_argument(returns[i])) stack->push_back(given[i]);
  }
  stack->insert(stack->end(), copies.begin(), copies.end());
}

}  // namespace

const LibraryForm& on_copies_form() {
  static const auto* form = new LibraryForm{"on_copies",
                                            can_work_on_copies,
                                            returns_with_copies,
                                            c10::KernelFunction::makeFromBoxedFunction<&run_on_copies>(),
                                            {}};
  return *form;
}

std::optional<c10::OperatorHandle> on_copies(const c10::OperatorHandle& op) { return form_of(on_copies_form(), op); }

}  // namespace diptych::detail
