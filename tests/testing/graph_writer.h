// Builds a graph by running it: each call appends a node, executes it on real tensors, and takes the metadata of the
// results from them, so that a test has the graph and what it must compute.
#pragma once
#include "testing/run_graph.h"
#include "testing/same_tensors.h"

namespace diptych::testing {

using namespace detail;

/// Writes one graph. Operands that are left off at the end take the schema's defaults.
class GraphWriter {
 public:
  explicit GraphWriter(std::string name = "graph") : graph_(std::move(name)) {}

  Value input(const at::Tensor& tensor, std::string path = "", SlotKind kind = SlotKind::kArgument) {
    if (path.empty()) path = "x" + std::to_string(graph_.inputs().size());
    const Value value = graph_.add_input(TensorMeta::of(tensor), {kind, std::move(path)});
    inputs_.push_back(tensor.detach());
    keep(value, tensor.detach());
    return value;
  }
  Value constant(const at::Tensor& tensor) {
    const Value value = graph_.add_constant(tensor);
    keep(value, tensor);
    return value;
  }
  /// Appends a node and returns its outputs; an undefined result is none.
  std::vector<Value> call_all(std::string_view name, std::vector<Operand> operands) {
    at::NoGradGuard no_grad;
    Node node{Op::find(name), {}, {}, {}, {}, {}};
    const auto& arguments = node.op.schema().arguments();
    for (size_t i = operands.size(); i < arguments.size(); ++i) operands.emplace_back(default_of(arguments[i]));
    for (auto& operand : operands) node.operands.push_back(std::move(operand));
    node.provenance.phase = phase;
    node.provenance.scope = scope;
    node.grad_enabled = grad_enabled;
    const auto results = call_boxed(node.op, {node.operands.data(), node.operands.size()},
                                    [&](Value value) { return tensors_[value.id]; });
    std::vector<std::optional<TensorMeta>> metas;
    for (const auto& result : results) {
      metas.push_back(result.defined() ? std::optional(TensorMeta::of(result)) : std::nullopt);
    }
    for (const auto& returned : node.op.schema().returns()) {
      const bool is_list = returned.type()->kind() == c10::TypeKind::ListType;
      node.returns.push_back(is_list ? static_cast<int32_t>(results.size()) : -1);
    }
    const size_t index = graph_.add_node(std::move(node), metas);
    const auto& outputs = graph_.nodes()[index].outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]) keep(outputs[i], results[i]);
    }
    return {outputs.begin(), outputs.end()};
  }
  /// Appends a node of one output.
  Value call(std::string_view name, std::vector<Operand> operands) { return call_all(name, std::move(operands)).at(0); }

  /// Sets the outputs and gives the graph away.
  Graph finish(const std::vector<Value>& outputs, SlotKind kind = SlotKind::kOutput) {
    std::vector<Slot> slots;
    for (size_t i = 0; i < outputs.size(); ++i) slots.push_back({kind, "y" + std::to_string(i)});
    graph_.set_outputs(outputs, slots);
    return graph_;
  }
  const Graph& graph() const { return graph_; }
  const at::Tensor& tensor(Value value) const { return tensors_.at(value.id); }
  const std::vector<at::Tensor>& inputs() const { return inputs_; }
  std::vector<at::Tensor> tensors(const std::vector<Value>& values) const {
    std::vector<at::Tensor> found;
    for (const Value value : values) found.push_back(value ? tensor(value) : at::Tensor());
    return found;
  }

  Phase phase = Phase::kForward;  ///< of the nodes written from now on, as the next two
  InternedString scope;
  bool grad_enabled = true;

 private:
  static c10::IValue default_of(const c10::Argument& argument) {
    TORCH_CHECK(argument.default_value() || argument.type()->kind() == c10::TypeKind::OptionalType, "operand '",
                argument.name(), "' has no default");
    return argument.default_value() ? *argument.default_value() : c10::IValue();
  }
  void keep(Value value, const at::Tensor& tensor) {
    tensors_.resize(std::max<size_t>(tensors_.size(), value.id + 1));
    tensors_[value.id] = tensor;
  }

  Graph graph_;
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> inputs_;
};

/// A Tensor operand made from a number.
inline Operand number(double value) { return WrappedNumber{value, at::kDouble}; }
/// An int[] operand.
inline Operand ints(std::vector<int64_t> values) { return c10::IValue(std::move(values)); }

}  // namespace diptych::testing
