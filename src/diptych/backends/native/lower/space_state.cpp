#include "diptych/backends/native/lower/space_state.h"

#include <algorithm>

namespace diptych::detail {

const PlacedDims* SpaceState::find_result(Value value) const {
  for (const PlacedDims& placed : results) {
    if (placed.value == value) return &placed;
  }
  return nullptr;
}

int32_t SpaceState::append(std::span<const int32_t> axes_of_dims) {
  const auto first = static_cast<int32_t>(dims.size());
  dims.insert(dims.end(), axes_of_dims.begin(), axes_of_dims.end());
  return first;
}

bool SpaceState::number_atoms() {
  atoms.clear();
  std::vector<int32_t> found;
  const auto is_sound = [&](std::span<const int32_t> axes_of_dims) {
    found.clear();
    for (const int32_t axis : axes_of_dims) {
      if (axis != kNoAxis) axes.append_atoms(axis, found);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::find(found.begin() + static_cast<std::ptrdiff_t>(i) + 1, found.end(), found[i]) != found.end())
        return false;
      if (std::find(atoms.begin(), atoms.end(), found[i]) == atoms.end()) atoms.push_back(found[i]);
    }
    return atoms.size() <= static_cast<size_t>(kMaxDims);
  };
  for (const PlacedDims& placed : results) {
    if (!is_sound(dims_of(placed))) return false;
  }
  for (const PlacedDims& placed : uses) {
    if (!is_sound(dims_of(placed))) return false;
  }
  return true;
}

int32_t SpaceState::number_of(int32_t atom) const {
  return static_cast<int32_t>(std::find(atoms.begin(), atoms.end(), atom) - atoms.begin());
}

std::vector<int32_t> SpaceState::numbers_along(int32_t axis) const {
  std::vector<int32_t> found;
  if (axis != kNoAxis) axes.append_atoms(axis, found);
  for (int32_t& atom : found) atom = number_of(atom);
  return found;
}

}  // namespace diptych::detail
