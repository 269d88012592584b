// Small graphs for tests, without a trace.
#pragma once
#include <torch/types.h>

#include <string>
#include <utility>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::test {

/// A node of `op` with nothing else set.
inline Node make_node(Op op) { return Node{std::move(op), {}, {}, {}, {}, {}, /*grad_enabled=*/true}; }

/// Builds a graph node by node while running each node eagerly on example inputs, so that the metadata is what ATen
/// gives and the examples are the oracle's values.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name = "graph") : graph_(std::move(name)) {}

  Value input(const at::Tensor& example) {
    const Value value =
        graph_.add_input(TensorMeta::of(example), {SlotKind::kArgument, "x" + std::to_string(graph_.inputs().size())});
    remember(value, example);
    return value;
  }

  Value constant(const at::Tensor& tensor) {
    const Value value = graph_.add_constant(tensor);
    remember(value, tensor);
    return value;
  }

  /// Adds a node and returns all of its outputs; operands beyond those given take the schema's defaults.
  std::vector<Value> nodes(const std::string& name, std::vector<Operand> operands, bool grad_enabled = true) {
    const Op op = Op::find(name);
    const auto& arguments = op.schema().arguments();
    for (size_t i = operands.size(); i < arguments.size(); ++i) {
      operands.emplace_back(arguments[i].default_value().value());
    }
    torch::jit::Stack stack;
    for (const Operand& operand : operands) stack.push_back(boxed(operand));
    {
      const at::NoGradGuard no_grad;
      op.handle().callBoxed(&stack);
    }
    Node node = make_node(op);
    node.operands.assign(operands.begin(), operands.end());
    node.grad_enabled = grad_enabled;
    std::vector<at::Tensor> results;
    for (const auto& result : stack) add_return(node, result, results);
    std::vector<std::optional<TensorMeta>> metas;
    for (const auto& tensor : results) {
      metas.push_back(tensor.defined() ? std::optional<TensorMeta>(TensorMeta::of(tensor)) : std::nullopt);
    }
    node.provenance.scope = scope;
    const auto index = graph_.add_node(std::move(node), metas);
    const auto& outputs = graph_.nodes()[index].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]) remember(outputs[i], results[i]);
    }
    return {outputs.begin(), outputs.end()};
  }
  Value node(const std::string& name, std::vector<Operand> operands, bool grad_enabled = true) {
    return nodes(name, std::move(operands), grad_enabled).at(0);
  }

  Graph finish(std::vector<Value> outputs) {
    std::vector<Slot> slots;
    for (size_t i = 0; i < outputs.size(); ++i) slots.push_back({SlotKind::kOutput, "out" + std::to_string(i)});
    graph_.set_outputs(std::move(outputs), std::move(slots));
    return graph_;
  }

  const at::Tensor& example(Value value) const { return examples_.at(value.id); }
  Graph& graph() { return graph_; }

  InternedString scope;

 private:
  void remember(Value value, const at::Tensor& tensor) {
    examples_.resize(std::max(examples_.size(), static_cast<size_t>(value.id) + 1));
    examples_[value.id] = tensor;
  }

  c10::IValue boxed(const Operand& operand) const {
    if (const auto* value = std::get_if<Value>(&operand)) return *value ? examples_.at(value->id) : at::Tensor();
    if (const auto* list = std::get_if<ValueList>(&operand)) {
      bool has_none = false;
      c10::List<at::Tensor> tensors;
      c10::List<std::optional<at::Tensor>> optionals;
      for (const Value value : *list) {
        has_none = has_none || !value;
        tensors.push_back(value ? examples_.at(value.id) : at::Tensor());
        optionals.push_back(value ? std::optional<at::Tensor>(examples_.at(value.id)) : std::nullopt);
      }
      return has_none ? c10::IValue(optionals) : c10::IValue(tensors);
    }
    if (const auto* number = std::get_if<WrappedNumber>(&operand)) {
      auto tensor = at::scalar_tensor(number->number, at::TensorOptions().dtype(number->dtype));
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
      return tensor;
    }
    if (const auto* size = std::get_if<SizeExpr>(&operand)) return size->hint();
    if (const auto* sizes = std::get_if<Sizes>(&operand)) {
      std::vector<int64_t> hints;
      for (const auto& size : *sizes) hints.push_back(size.hint());
      return hints;
    }
    return std::get<c10::IValue>(operand);
  }

  static void add_return(Node& node, const c10::IValue& result, std::vector<at::Tensor>& results) {
    if (result.isTensor()) {
      node.returns.push_back(-1);
      results.push_back(result.toTensor());
    } else if (result.isTensorList()) {
      const auto list = result.toTensorVector();
      node.returns.push_back(static_cast<int32_t>(list.size()));
      results.insert(results.end(), list.begin(), list.end());
    } else {
      node.returns.push_back(-2);
    }
  }

  Graph graph_;
  std::vector<at::Tensor> examples_;
};

/// Whether two tensors have the same bits, dtype and sizes (NaNs of the same bits are equal).
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto x = a.contiguous(), y = b.contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace diptych::test
