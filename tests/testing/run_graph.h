// Runs a graph node by node through the dispatcher. Slow and simple, so that rooms below the interpreter can be tested.
#pragma once
#include <torch/types.h>

#include "diptych/graph/graph.h"

namespace diptych::testing {

inline at::Tensor wrapped_tensor(const WrappedNumber& wrapped) {
  at::Tensor tensor = at::scalar_tensor(wrapped.number, at::TensorOptions(wrapped.dtype));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

/// One operand as the dispatcher takes it; `type` is the schema's argument type, `tensor_of` gives a value's tensor.
template <class TensorOf>
c10::IValue to_ivalue(const Operand& operand, const c10::TypePtr& type, TensorOf&& tensor_of) {
  const bool is_optional = type->kind() == c10::TypeKind::OptionalType;
  if (const auto* value = std::get_if<Value>(&operand)) {
    if (*value) return tensor_of(*value);
    return is_optional ? c10::IValue() : c10::IValue(at::Tensor());
  }
  if (const auto* list = std::get_if<ValueList>(&operand)) {
    c10::List<at::Tensor> tensors;
    c10::List<std::optional<at::Tensor>> optional_tensors;
    for (const Value value : *list) {
      tensors.push_back(value ? tensor_of(value) : at::Tensor());
      optional_tensors.push_back(value ? std::optional(tensor_of(value)) : std::nullopt);
    }
    const bool holds_optionals =
        type->kind() == c10::TypeKind::ListType &&
        type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::OptionalType;
    return holds_optionals ? c10::IValue(optional_tensors) : c10::IValue(tensors);
  }
  if (const auto* wrapped = std::get_if<WrappedNumber>(&operand)) return wrapped_tensor(*wrapped);
  if (const auto* size = std::get_if<SizeExpr>(&operand)) return size->hint();
  if (const auto* sizes = std::get_if<Sizes>(&operand)) {
    c10::List<int64_t> numbers;
    for (const auto& size : *sizes) numbers.push_back(size.hint());
    return numbers;
  }
  return std::get<c10::IValue>(operand);
}

/// Calls an operator boxed and flattens its tensors; results that are no tensors are dropped.
template <class TensorOf>
std::vector<at::Tensor> call_boxed(const Op& op, c10::ArrayRef<Operand> operands, TensorOf&& tensor_of) {
  torch::jit::Stack stack;
  const auto& arguments = op.schema().arguments();
  TORCH_CHECK(operands.size() == arguments.size(), op.name(), " takes ", arguments.size(), " operands");
  for (size_t i = 0; i < operands.size(); ++i)
    stack.push_back(to_ivalue(operands[i], arguments[i].real_type(), tensor_of));
  op.handle().callBoxed(stack);
  std::vector<at::Tensor> results;
  for (const auto& result : stack) {
    if (result.isTensor()) results.push_back(result.toTensor());
    if (result.isTensorList()) {
      for (const auto& tensor : result.toTensorVector()) results.push_back(tensor);
    }
  }
  return results;
}

/// Runs `graph`; one tensor per output, undefined for none. A graph without higher-order operators.
inline std::vector<at::Tensor> run_graph(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK(inputs.size() == graph.inputs().size(), "graph takes ", graph.inputs().size(), " inputs");
  std::vector<at::Tensor> tensors(graph.num_values());
  for (size_t i = 0; i < inputs.size(); ++i) tensors[graph.inputs()[i].id] = inputs[i];
  for (size_t i = 0; i < graph.num_values(); ++i) {
    const auto& info = graph.info(Value{static_cast<int32_t>(i)});
    if (info.kind == ValueInfo::Kind::kConstant) tensors[i] = graph.constants()[info.index];
  }
  for (const Node& node : graph.nodes()) {
    at::AutoGradMode mode(node.grad_enabled && at::GradMode::is_enabled());
    const auto results = call_boxed(node.op, {node.operands.data(), node.operands.size()},
                                    [&](Value value) { return tensors[value.id]; });
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i]) tensors[node.outputs[i].id] = results.at(i);
    }
  }
  std::vector<at::Tensor> outputs;
  for (const Value output : graph.outputs()) outputs.push_back(output ? tensors[output.id] : at::Tensor());
  return outputs;
}

}  // namespace diptych::testing
