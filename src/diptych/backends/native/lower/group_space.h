// The iteration space of a group of nodes, as it grows: which dims of which values run together.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "diptych/backends/native/kernel/index_map.h"
#include "diptych/graph/graph.h"

namespace diptych::detail {

// Note [Axes are made of atoms]
// Each dim of each value of a group runs along a list of atoms, from the outermost to the innermost; a dim of size 1
// along none. Nodes make dims run together: a pointwise node those of its operands and of its result, a permutation
// other ones, a view splits or joins them (which splits atoms until both sides agree), a reduction ends some. So every
// access of the group is affine in the atoms, and a reshape inside it costs nothing.

/// The space of some nodes of one graph. Copies are independent.
class GroupSpace {
 public:
  explicit GroupSpace(const Graph& graph);
  /// Adds a node. Operands that no node of the group makes are loads. Returns false, and leaves the space as it was, if
  /// it does not fit: no lowering, dims that do not run together, an operand that is read at other places and is made
  /// within the group.
  bool add(size_t node);
  const std::vector<size_t>& nodes() const;  ///< in the graph's order

  /// The extents of the atoms that some value runs along, and which of them each value of the group does.
  std::vector<int64_t> extents() const;
  DimSet domain(Value value) const;
  /// The atoms that a node takes away; empty for nodes that are no reductions.
  DimSet reduced(size_t node) const;

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace diptych::detail
