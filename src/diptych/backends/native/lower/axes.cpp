#include "diptych/backends/native/lower/axes.h"

#include <algorithm>

namespace diptych::detail {

int32_t Axes::make(int64_t extent) {
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

void Axes::cut(int32_t atom, int64_t inner_extent) {
  const int32_t outer = make(axes_[atom].extent / inner_extent), inner = make(inner_extent);
  axes_[atom].outer = outer;
  axes_[atom].inner = inner;
  ++changes_;
}

bool Axes::unify(std::span<const int32_t> a, std::span<const int32_t> b) {
  std::vector<int32_t> left(a.begin(), a.end()), right(b.begin(), b.end());
  while (!left.empty() && !right.empty()) {
    const int32_t x = pop_atom(left), y = pop_atom(right);
    if (x == y) continue;
    const int64_t x_extent = extent(x), y_extent = extent(y);
    if (x_extent == y_extent) {
      axes_[std::max(x, y)].other_name = std::min(x, y);
      ++changes_;
      continue;
    }
    const bool is_x_larger = x_extent > y_extent;
    const int64_t smaller = is_x_larger ? y_extent : x_extent;
    if ((is_x_larger ? x_extent : y_extent) % smaller != 0) return false;
    cut(is_x_larger ? x : y, smaller);
    left.push_back(x);
    right.push_back(y);
  }
  return left.empty() && right.empty();
}

}  // namespace diptych::detail
