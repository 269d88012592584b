// Where the results of one node are in the space of a group.
#pragma once
#include <functional>
#include <vector>

#include "diptych/native/lower/node_arguments.h"
#include "diptych/native/lower/space_state.h"

namespace diptych::detail {

/// One axis per dim; SpaceState::kNoAxis for a dim of size 1.
using Dims = std::vector<int32_t>;

/// One node while it is added to a group.
class NodeSpace : public NodeArguments {
 public:
  NodeSpace(const Graph& graph, size_t node, SpaceState& state)
      : NodeArguments(graph, graph.nodes()[node]), index_(node), state_(state) {}

  /// Whether the group makes a value.
  bool is_inside(Value value) const { return state_.find_result(value) != nullptr; }
  Dims make_dims(const Sizes& sizes);
  bool unify(const Dims& a, const Dims& b);

  /// Calls `fit` with the dims of an operand. Of a value that the group reads, those of each of its uses are tried, and
  /// then new ones, until `fit` returns true and the space is sound; what a failed trial did is undone, in the space.
  bool fit_operand(Value value, const std::function<bool(const Dims&)>& fit);
  /// Says that an operand is read at other places. Returns false if the group makes it.
  bool read_apart(Value value);

  /// Puts all results along these dims, and along those of their uses by nodes of the group.
  bool put_results(const Dims& dims);
  void put_reduced(const Dims& axes);
  /// Has the space refused, now and whatever is added later, where two of these run along the same atom.
  void keep_apart(const Dims& axes) {
    state_.uses.push_back({Value{}, state_.append(axes), static_cast<int32_t>(axes.size())});
  }

 private:
  bool join_uses(Value value, const Dims& dims);

  size_t index_;
  SpaceState& state_;
};

/// The ways to place results. Operands and results run along the same axes, broadcast as ATen does.
bool place_pointwise(NodeSpace& node);
/// The result is the operand with its dims in another order: permute, transpose, t.
bool place_permuted(NodeSpace& node);
/// The result has the operand's elements in the same order: view, reshape, squeeze, unsqueeze.
bool place_reshaped(NodeSpace& node);
bool place_expanded(NodeSpace& node);
/// The result is the operand, several times along each dim: repeat.
bool place_repeated(NodeSpace& node);
/// The results run along axes of their own, and operands are read at other places.
bool place_apart(NodeSpace& node);
/// Tensors behind each other: cat, and stack along a dim of its own. If the group makes one, they have to be of one
/// size and few, and the result runs along their dims and a new one that counts them; else they are read at other
/// places.
bool place_concatenated(NodeSpace& node);
bool place_stacked(NodeSpace& node);
/// The results run along axes of their own, and no operand's elements are read.
bool place_created(NodeSpace& node);
/// The dims that are listed by the operand at `position` end; all if there is no list.
bool place_reduced(NodeSpace& node, const std::vector<int64_t>& dims);
template <size_t kDims>
bool place_reduced_by_list(NodeSpace& node) {
  return place_reduced(node, node.integers(kDims));
}
inline bool place_reduced_entirely(NodeSpace& node) { return place_reduced(node, {}); }

}  // namespace diptych::detail
