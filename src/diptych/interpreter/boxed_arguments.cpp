#include "diptych/interpreter/boxed_arguments.h"

#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <set>

#include "diptych/graph/operand.h"

namespace diptych::detail {
namespace {

at::Tensor take(Frame& frame, int32_t reference, bool is_last) {
  // With a const tensor in the same expression, clang 19 takes the moved tensor for const, too, and copies it.
  if (is_last) return std::move(frame.registers[reference]);
  return frame.tensor(reference);
}

// `Tensor?[]` and `Tensor[]` are both value lists in a graph and different lists on a stack.
bool wants_optional_elements(const Node& node, size_t position) {
  if (node.op.is_hop()) return false;
  const auto& type = node.op.schema().arguments()[position].type();
  if (type->kind() != c10::TypeKind::ListType) return false;
  return type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::OptionalType;
}

bool takes_number_as_tensor(const Node& node, size_t position) {
  return operand_type(node.op, position).kind == OperandKind::kTensor;
}

c10::IValue static_sizes(const Sizes& sizes) {
  std::vector<int64_t> hints;
  for (const auto& size : sizes) hints.push_back(size.hint());
  return c10::IValue(hints);
}

}  // namespace

bool is_absent_optional(const Node& node, size_t position) {
  if (node.op.is_hop()) return false;
  const auto* value = std::get_if<Value>(&node.operands[position]);
  return value != nullptr && !*value &&
         node.op.schema().arguments()[position].type()->kind() == c10::TypeKind::OptionalType;
}

OptionalTensorListMaker::OptionalTensorListMaker(size_t size)
    : list_(c10::OptionalType::create(c10::TensorType::get())) {
  list_.reserve(size);
}
void OptionalTensorListMaker::push(at::Tensor tensor) {
  list_.push_back(tensor.defined() ? c10::IValue(std::move(tensor)) : c10::IValue());
}
c10::List<std::optional<at::Tensor>> OptionalTensorListMaker::finish() && {
  return c10::impl::toTypedList<std::optional<at::Tensor>>(std::move(list_));
}

BoxedArguments::Argument BoxedArguments::make(const Node& node, size_t position, OperandTable& table) {
  const Operand& operand = node.operands[position];
  Argument argument;
  if (const auto* list = std::get_if<ValueList>(&operand)) {
    argument.kind = wants_optional_elements(node, position) ? Kind::kOptionalTensorList : Kind::kTensorList;
    for (const Value value : *list) argument.list.emplace_back(table.reference(value), false);
  } else if (std::holds_alternative<SizeNumber>(operand) ||
             (std::holds_alternative<SizeExpr>(operand) && takes_number_as_tensor(node, position))) {
    argument.kind = Kind::kNumber;
    argument.index = table.dynamic_number({operand, takes_number_as_tensor(node, position)});
  } else if (const auto* size = std::get_if<SizeExpr>(&operand)) {
    argument.constant = size->hint();
    if (!size->is_static()) argument.kind = Kind::kSize, argument.index = table.dynamic_scalar(*size);
  } else if (const auto* sizes = std::get_if<Sizes>(&operand)) {
    argument.constant = static_sizes(*sizes);
    if (!all_static(*sizes)) argument.kind = Kind::kSizes, argument.index = table.dynamic_list(*sizes);
  } else if (const auto* constant = std::get_if<c10::IValue>(&operand); constant && !constant->isTensor()) {
    argument.constant = *constant;
  } else if (is_absent_optional(node, position)) {
    argument.constant = c10::IValue();  // some kernels ask whether there is a tensor, and not whether it is defined
  } else {
    argument.kind = Kind::kTensor;
    argument.index = table.tensor_reference(operand);
  }
  return argument;
}

BoxedArguments::BoxedArguments(const Node& node, OperandTable& table, c10::ArrayRef<int32_t> dying) {
  for (size_t i = 0; i < node.operands.size(); ++i) arguments_.push_back(make(node, i, table));
  std::set<int32_t> unseen(dying.begin(), dying.end());
  for (auto argument = arguments_.rbegin(); argument != arguments_.rend(); ++argument) {
    if (argument->kind == Kind::kTensor) argument->is_last = unseen.erase(argument->index) > 0;
    for (auto element = argument->list.rbegin(); element != argument->list.rend(); ++element) {
      element->second = unseen.erase(element->first) > 0;
    }
  }
}

void BoxedArguments::push_list(Frame& frame, const Argument& argument, torch::jit::Stack& stack) {
  c10::List<at::Tensor> list;
  list.reserve(argument.list.size());
  for (const auto& [reference, is_last] : argument.list) list.push_back(take(frame, reference, is_last));
  stack.emplace_back(std::move(list));
}

void BoxedArguments::push_optional_list(Frame& frame, const Argument& argument, torch::jit::Stack& stack) {
  OptionalTensorListMaker list(argument.list.size());
  for (const auto& [reference, is_last] : argument.list) list.push(take(frame, reference, is_last));
  stack.emplace_back(std::move(list).finish());
}

void BoxedArguments::push(Frame& frame, torch::jit::Stack& stack) const {
  for (const auto& argument : arguments_) {
    switch (argument.kind) {
      case Kind::kTensor:
        stack.emplace_back(take(frame, argument.index, argument.is_last));
        break;
      case Kind::kTensorList:
        push_list(frame, argument, stack);
        break;
      case Kind::kOptionalTensorList:
        push_optional_list(frame, argument, stack);
        break;
      case Kind::kSize:
        stack.emplace_back(frame.dynamic->scalars[argument.index]);
        break;
      case Kind::kSizes: {
        std::vector<int64_t> sizes;
        for (const auto& size : frame.dynamic->lists[argument.index]) sizes.push_back(size.expect_int());
        stack.emplace_back(std::move(sizes));
        break;
      }
      case Kind::kNumber:
        stack.push_back(frame.dynamic->numbers[argument.index]);
        break;
      case Kind::kConstant:
        stack.push_back(argument.constant);
        break;
    }
  }
}

}  // namespace diptych::detail
