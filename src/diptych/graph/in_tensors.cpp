#include "diptych/graph/in_tensors.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/item.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cstring>

namespace diptych::detail {
namespace {

bool is_number(const c10::TypePtr& type) {
  constexpr c10::TypeKind kNumbers[] = {c10::TypeKind::IntType, c10::TypeKind::FloatType, c10::TypeKind::BoolType,
                                        c10::TypeKind::ComplexType, c10::TypeKind::NumberType};
  return std::find(std::begin(kNumbers), std::end(kNumbers), type->kind()) != std::end(kNumbers);
}

const c10::TypePtr& element_of_list(const c10::TypePtr& type) {
  return type->expectRef<c10::ListType>().getElementType();
}

bool is_tensor(const c10::TypePtr& type) {
  const bool is_list = type->kind() == c10::TypeKind::ListType;
  return (is_list ? element_of_list(type) : type)->kind() == c10::TypeKind::TensorType;
}

bool has_form(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto& returns = schema.returns();
  const auto is_plain = [](const c10::Argument& argument) {
    return argument.alias_info() == nullptr && !holds_object(argument.type());
  };
  const auto is_held = [](const c10::Argument& result) { return is_held_by_tensor(result.type()); };
  return std::any_of(returns.begin(), returns.end(), is_held) &&
         std::all_of(schema.arguments().begin(), schema.arguments().end(), is_plain) &&
         std::all_of(returns.begin(), returns.end(), [&](const c10::Argument& result) {
           return is_plain(result) && (is_tensor(result.type()) || is_held(result));
         });
}

std::vector<c10::Argument> returns_of(const c10::FunctionSchema& schema) {
  std::vector<c10::Argument> returns;
  for (const auto& result : schema.returns()) {
    const bool is_held = is_held_by_tensor(result.type());
    returns.push_back(is_held ? c10::Argument(result.name(), c10::TensorType::get()) : result);
  }
  return returns;
}

// What is absent is a matrix without elements; all else has a dimension at most.
at::Tensor holder_of(const c10::IValue& given) {
  if (given.isNone()) return at::empty({0, 0}, at::kByte);
  if (given.isString()) {
    const std::string& text = given.toStringRef();
    at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
    if (!text.empty()) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
    return bytes;
  }
  if (!given.isList()) return at::scalar_tensor(given.toScalar(), given.toScalar().type());
  std::vector<at::Tensor> elements;
  for (const c10::IValue& element : given.toListRef()) elements.push_back(holder_of(element));
  return elements.empty() ? at::empty({0}, at::kByte) : at::stack(elements);
}

c10::IValue number_in(const at::Tensor& tensor, const c10::TypePtr& type) {
  const at::Scalar number = tensor.item();
  switch (type->kind()) {
    case c10::TypeKind::IntType:
      return number.toLong();
    case c10::TypeKind::FloatType:
      return number.toDouble();
    case c10::TypeKind::BoolType:
      return number.toBool();
    case c10::TypeKind::ComplexType:
      return number.toComplexDouble();
    default:
      return number;
  }
}

// The kernel of all forms.
void run_in_tensors(const c10::OperatorHandle& form, c10::Stack* stack) {
  const c10::OperatorHandle op = original_of(form);
  const auto& returns = op.schema().returns();
  op.callBoxed(stack);
  const size_t begin = stack->size() - returns.size();
  for (size_t i = 0; i < returns.size(); ++i) {
    if (is_held_by_tensor(returns[i].type())) (*stack)[begin + i] = holder_of((*stack)[begin + i]);
  }
}

}  // namespace

bool is_held_by_tensor(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) {
    return is_held_by_tensor(type->expectRef<c10::OptionalType>().getElementType());
  }
  if (type->kind() == c10::TypeKind::ListType) return is_number(element_of_list(type));
  return is_number(type) || type->kind() == c10::TypeKind::StringType;
}

c10::IValue held_by(const at::Tensor& tensor, const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) {
    if (tensor.dim() == 2) return {};
    return held_by(tensor, type->expectRef<c10::OptionalType>().getElementType());
  }
  if (type->kind() == c10::TypeKind::StringType) {
    return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.numel());
  }
  if (type->kind() != c10::TypeKind::ListType) return number_in(tensor, type);
  c10::impl::GenericList list(element_of_list(type));
  for (int64_t i = 0; i < tensor.numel(); ++i) list.push_back(number_in(tensor[i], element_of_list(type)));
  return list;
}

std::vector<bool> results_in_tensors(const c10::OperatorHandle& op) {
  std::vector<bool> found;
  if (op.schema().getNamespace() != in_tensors_form().name_space) return found;
  for (const auto& result : original_of(op).schema().returns()) found.push_back(is_held_by_tensor(result.type()));
  return found;
}

const LibraryForm& in_tensors_form() {
  static const auto* form = new LibraryForm{"in_tensors",
                                            has_form,
                                            returns_of,
                                            c10::KernelFunction::makeFromBoxedFunction<&run_in_tensors>(),
                                            {at::Tag::data_dependent_output}};
  return *form;
}

std::optional<c10::OperatorHandle> in_tensors(const c10::OperatorHandle& op) { return form_of(in_tensors_form(), op); }

}  // namespace diptych::detail
