// Building a graph from another: the mapping from old to new values that every pass needs.
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Copies parts of `source` into a new graph while remembering which new value replaces which old one.
/// A pass walks source.nodes() and, for each, either copies it, or maps its outputs to values that exist already,
/// or emits other nodes into graph() and maps to those.
class Rewriter {
 public:
  explicit Rewriter(const Graph& source);
  /// Copies to the end of `target`, to whose values the caller maps the source's inputs.
  Rewriter(const Graph& source, Graph target);
  /// Adds an input of the new graph with the metadata of `old`, and maps `old` to it.
  Value add_input(Value old, Slot slot);
  /// Copies every input with its slot.
  void copy_inputs();
  /// Copies a node of the source with its operands mapped; maps its outputs.
  void copy_node(const Node& node);
  void map(Value old, Value replacement);
  bool is_mapped(Value old) const;
  /// The new value for `old`; none maps to none; a constant is copied when first asked for. Requires: is_mapped(old)
  /// otherwise.
  Value operator[](Value old);
  /// The operands of `node` in terms of the new graph.
  c10::SmallVector<Operand, 4> map_operands(const Node& node);
  Graph& graph() { return graph_; }
  /// Maps the source's outputs, sets them with their slots, and returns the new graph.
  Graph finish();

 private:
  const Graph& source_;
  Graph graph_;
  std::vector<Value> map_;
};

/// Returns the same graph with its values in order: inputs, then the results of nodes, constants where they are first
/// used.
Graph renumber(const Graph& source);

/// Returns the subgraph that computes `outputs` from `inputs` (values of `source`), nodes in the source's order: those
/// that the outputs need, and those whose indices are in `also_keep` (random nodes of a forward graph, which must draw
/// whether or not their result is used).
/// Errors: InternalError names a value that is needed but is neither an input nor computable from the inputs.
Graph extract(const Graph& source, std::string name, const std::vector<Value>& inputs, std::vector<Slot> input_slots,
              const std::vector<Value>& outputs, std::vector<Slot> output_slots,
              const std::vector<size_t>& also_keep = {});

}  // namespace diptych::detail
