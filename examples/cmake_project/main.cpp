// Builds the graph of tanh(x) * x by hand and prints it: the smallest program that uses an installed Diptych.
#include <diptych/graph/graph.h>

#include <exception>
#include <iostream>

namespace dp = diptych;

namespace {

dp::TensorMeta row_of(int64_t columns) {
  dp::TensorMeta meta;
  meta.sizes = {2, columns};
  meta.strides = {columns, 1};
  return meta;
}

// Appends a node with one output that looks like its first operand.
dp::Value apply(dp::Graph& graph, const char* name, std::initializer_list<dp::Value> operands) {
  dp::Node node{.op = dp::Op::find(name)};
  for (const dp::Value operand : operands) node.operands.emplace_back(operand);
  node.returns = {-1};
  const size_t index = graph.add_node(std::move(node), {graph.meta(*operands.begin())});
  return graph.nodes()[index].outputs[0];
}

}  // namespace

int main() try {
  dp::Graph graph("tanh_times_x");
  const dp::Value x = graph.add_input(row_of(3), {dp::SlotKind::kArgument, "x"});
  const dp::Value y = apply(graph, "aten.mul.Tensor", {apply(graph, "aten.tanh", {x}), x});
  graph.set_outputs({y}, {{dp::SlotKind::kOutput, "y"}});
  std::cout << graph.code();
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
