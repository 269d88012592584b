#include "diptych/native/lower/axes.h"

#include <algorithm>

#include "diptych/native/lower/size_table.h"

namespace diptych::detail {

int32_t Axes::make(const SizeExpr& extent) {
  axes_.push_back({extent});
  return static_cast<int32_t>(axes_.size()) - 1;
}

int32_t Axes::root(int32_t axis) const {
  while (axes_[axis].other_name != kNone) axis = axes_[axis].other_name;
  return axis;
}

void Axes::append_atoms(int32_t axis, std::vector<int32_t>& atoms) const {
  axis = root(axis);
  if (axes_[axis].outer == kNone) {
    atoms.push_back(axis);
    return;
  }
  append_atoms(axes_[axis].outer, atoms);
  append_atoms(axes_[axis].inner, atoms);
}

int32_t Axes::pop_atom(std::vector<int32_t>& list) const {
  while (true) {
    const int32_t axis = root(list.back());
    list.pop_back();
    if (axes_[axis].outer == kNone) return axis;
    list.push_back(axes_[axis].outer);
    list.push_back(axes_[axis].inner);
  }
}

void Axes::cut(int32_t atom, const SizeExpr& outer_extent, const SizeExpr& inner_extent) {
  const int32_t outer = make(outer_extent), inner = make(inner_extent);
  axes_[atom].outer = outer;
  axes_[atom].inner = inner;
  ++changes_;
}

SizeExpr Axes::product(std::span<const int32_t> axes) const {
  SizeExpr product = 1;
  for (const int32_t axis : axes) product = product * axes_[axis].extent;
  return product;
}

bool Axes::unify(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> left(a.begin(), a.end()), right(b.begin(), b.end());
  while (!left.empty() && !right.empty()) {
    const int32_t x = pop_atom(left), y = pop_atom(right);
    if (x == y) continue;
    // Cutting makes axes, which moves them.
    const SizeExpr x_extent = extent(x), y_extent = extent(y);
    if (x_extent == y_extent) {
      axes_[std::max(x, y)].other_name = std::min(x, y);
      ++changes_;
      continue;
    }
    const bool is_x_larger = x_extent.hint() > y_extent.hint();
    const SizeExpr &larger = is_x_larger ? x_extent : y_extent, &smaller = is_x_larger ? y_extent : x_extent;
    // What is left over of the larger one is often all that the other list still has.
    const auto outer =
        quotient(larger, smaller, larger.is_static() ? SizeExpr(1) : product(is_x_larger ? right : left));
    if (!outer) return false;
    cut(is_x_larger ? x : y, *outer, smaller);
    left.push_back(x);
    right.push_back(y);
  }
  return left.empty() && right.empty();
}

}  // namespace diptych::detail
