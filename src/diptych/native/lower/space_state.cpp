#include "diptych/native/lower/space_state.h"

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
  if (seen_changes != axes.changes()) {
    atoms.clear();
    seen_results = seen_uses = 0;
    seen_changes = axes.changes();
  }
  while (seen_results < results.size()) {
    if (!number_atoms_of(results[seen_results++])) return false;
  }
  while (seen_uses < uses.size()) {
    if (!number_atoms_of(uses[seen_uses++])) return false;
  }
  return atoms.size() <= static_cast<size_t>(kMaxDims);
}

bool SpaceState::number_atoms_of(const PlacedDims& placed) {
  std::vector<int32_t> found;
  for (const int32_t axis : dims_of(placed)) {
    if (axis != kNoAxis) axes.append_atoms(axis, found);
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const auto rest = found.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    if (std::find(rest, found.end(), found[i]) != found.end()) return false;
    if (std::find(atoms.begin(), atoms.end(), found[i]) == atoms.end()) atoms.push_back(found[i]);
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
