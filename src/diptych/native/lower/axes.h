// Axes: what the dims of values run along. Some are one, some are made of others, some are atoms.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "diptych/graph/size_expr.h"

namespace diptych::detail {

/// Axes by number. An axis that is found to be another one stays as its second name; one that has to be cut becomes its
/// outer part and its inner part. What is neither is an atom. Value-like.
class Axes {
 public:
  /// Makes an atom. Requires: an extent that is not always 1.
  int32_t make(const SizeExpr& extent);
  const SizeExpr& extent(int32_t axis) const { return axes_[axis].extent; }
  /// How often axes were joined or cut: as long as that is the same, all axes have the atoms that they had.
  size_t changes() const { return changes_; }
  /// Appends the atoms of an axis, from the outermost to the innermost, each by the one name that all its names share.
  void append_atoms(int32_t axis, std::vector<int32_t>& atoms) const;
  /// Makes two lists, each from the outermost axis to the innermost, run along the same atoms: their innermost parts
  /// first, where the larger one is cut. Returns false where it can't be told that one extent divides the other at all
  /// sizes; axes then are partly unified, and of no more use.
  bool unify(std::span<const int32_t> a, std::span<const int32_t> b);

 private:
  static constexpr int32_t kNone = -1;
  struct Axis {
    SizeExpr extent;
    int32_t other_name = kNone;
    int32_t outer = kNone, inner = kNone;
  };

  int32_t root(int32_t axis) const;
  // Takes the innermost atom off a list.
  int32_t pop_atom(std::vector<int32_t>& list) const;
  void cut(int32_t atom, const SizeExpr& outer_extent, const SizeExpr& inner_extent);
  SizeExpr product(std::span<const int32_t> axes) const;

  std::vector<Axis> axes_;
  size_t changes_ = 0;
};

}  // namespace diptych::detail
