// The iteration space of a group of nodes, as it grows: which dims of which values run together.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/kernel/index_map.h"

namespace diptych::detail {

struct SpaceState;  // space_state.h

// Note [Axes are made of atoms]
// Each dim of each value of a group runs along a list of atoms, from the outermost to the innermost; a dim of size 1
// along none. Nodes make dims run together: a pointwise node those of its operands and of its result, a permutation
// other ones, a view splits or joins them (which splits atoms until both sides agree), a reduction ends some. So every
// access of the group is affine in the atoms, and a reshape inside it costs nothing.
// A value that the group makes is at one place at each point of the space. One that it reads may be read at several, as
// in x + x.t(), so each use has axes of its own; nodes share a use where that fits.

/// The atoms of each dim of a tensor, by their numbers in GroupSpace::extents(), from the outermost to the innermost.
using DimAtoms = std::vector<std::vector<int32_t>>;

/// The space of some nodes of one graph. Copies are independent.
class GroupSpace {
 public:
  explicit GroupSpace(const Graph& graph);
  /// Adds a node, before or after those that use its results. Operands that no node of the group makes are loads.
  /// Returns false, and leaves the space as it was, if it does not fit: no lowering, dims that do not run together, an
  /// operand that is read at other places and is made within the group. Requires: a node that is not in it yet.
  bool add(size_t node);
  const std::vector<size_t>& nodes() const;  ///< in the graph's order

  /// The extents of the atoms that some value runs along, and which of them each value of the group does; of a value
  /// that the group reads, those of its first use, and none if it is only read at other places.
  Sizes extents() const;
  DimSet domain(Value value) const;
  /// The atoms that a node takes away; empty for nodes that are no reductions.
  DimSet reduced(size_t node) const;

  /// What each dim of a value that the group makes runs along.
  DimAtoms dims(Value value) const;
  /// The same of a value that the group reads, where this node uses it. Requires: a node of the group, which does not
  /// read it at other places.
  DimAtoms used_dims(size_t node, Value value) const;
  /// All that a node of the group uses so.
  std::vector<std::pair<Value, DimAtoms>> uses_of(size_t node) const;
  /// The atoms that a reduction takes away, from the outermost to the innermost.
  std::vector<int32_t> reduced_atoms(size_t node) const;

 private:
  const Graph* graph_;
  std::shared_ptr<const SpaceState> state_;
};

}  // namespace diptych::detail
