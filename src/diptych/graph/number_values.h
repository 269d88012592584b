// Rebuilding a graph from definitions that carry their own value numbers, as text and files do.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A node whose operands hold written value numbers, and the numbers of its results (-1: undefined).
struct ParsedNode {
  std::optional<Node> node;
  std::vector<int32_t> numbers;
  std::vector<std::optional<TensorMeta>> metas;
  std::vector<int32_t> returns;
  std::vector<std::pair<int32_t, size_t>> positions;  ///< each defined number with its place in the text
};

/// Collects definitions in written order; build() adds them to a Graph in the order of their numbers, so that a graph
/// that was numbered from 0 without gaps gets the same numbers again.
class NumberedGraph {
 public:
  std::string name;
  std::vector<int32_t> outputs;
  std::vector<Slot> output_slots;
  /// (node, number, place) of each `grad of`.
  std::vector<std::tuple<size_t, int32_t, size_t>> grad_of;

  /// Adds the next input; inputs may be numbered in any order.
  void add_input(int32_t number, TensorMeta meta, Slot slot);
  /// Notes that a constant or node defines `number`; false if it is not above the last one.
  bool define(int32_t number);
  void add_constant(int32_t number, at::Tensor tensor, TensorMeta meta);
  void add_node(ParsedNode node) {
    steps_.push_back({std::move(node), {}, {}});
    ++num_nodes_;
  }
  size_t num_nodes() const { return num_nodes_; }
  /// Requires: every number that is used has been defined, and is below the numbers of the node that uses it.
  Graph build();

 private:
  struct Step {
    ParsedNode node;
    at::Tensor constant;
    TensorMeta constant_meta;
  };
  struct Input {
    int32_t number;
    TensorMeta meta;
    Slot slot;
  };

  void add_inputs_below(int64_t number);
  void restore_input_order();
  void patch_grad_of();
  void build_step(Step& step);
  void renumber(Node& node) const;
  void map(int32_t number, Value value);
  Value mapped(int32_t number) const;

  std::vector<Input> inputs_;        // as listed
  std::vector<size_t> input_order_;  // positions in inputs_, by number
  std::vector<Step> steps_;
  size_t num_nodes_ = 0;
  int32_t last_defined_ = -1;
  size_t next_input_ = 0;
  Graph graph_;
  std::vector<std::pair<int32_t, Value>> map_;
};

}  // namespace diptych::detail
