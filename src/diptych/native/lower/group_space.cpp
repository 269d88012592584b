#include "diptych/native/lower/group_space.h"

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/native/lower/kernel_row.h"
#include "diptych/native/lower/lower_group.h"

namespace diptych::detail {

GroupSpace::GroupSpace(const Graph& graph) : graph_(&graph), state_(std::make_shared<SpaceState>()) {}

bool GroupSpace::add(size_t node) {
  const Node& added = graph_->nodes()[node];
  if (!is_lowered_to_kernels(*graph_, added)) return false;
  auto state = std::make_shared<SpaceState>(*state_);
  NodeSpace space(*graph_, node, *state);
  if (!find_kernel_row(*graph_, added)->place(space) || !state->number_atoms()) return false;
  state->nodes.insert(std::lower_bound(state->nodes.begin(), state->nodes.end(), node), node);
  state_ = std::move(state);
  return true;
}

const std::vector<size_t>& GroupSpace::nodes() const { return state_->nodes; }

Sizes GroupSpace::extents() const {
  Sizes extents;
  for (const int32_t atom : state_->atoms) extents.push_back(state_->axes.extent(atom));
  return extents;
}

namespace {

DimSet set_of(const SpaceState& state, std::span<const int32_t> axes) {
  DimSet set;
  for (const int32_t axis : axes) {
    for (const int32_t atom : state.numbers_along(axis)) set = set | DimSet::of(atom);
  }
  return set;
}

DimAtoms atoms_of(const SpaceState& state, const PlacedDims& placed) {
  DimAtoms dims;
  for (const int32_t axis : state.dims_of(placed)) dims.push_back(state.numbers_along(axis));
  return dims;
}

}  // namespace

DimSet GroupSpace::domain(Value value) const {
  if (const auto* result = state_->find_result(value)) return set_of(*state_, state_->dims_of(*result));
  for (const PlacedDims& use : state_->uses) {
    if (use.value == value) return set_of(*state_, state_->dims_of(use));
  }
  return {};
}

std::vector<int32_t> GroupSpace::reduced_atoms(size_t node) const {
  std::vector<int32_t> atoms;
  for (const ReducedAxes& reduced : state_->reduced) {
    if (reduced.node != node) continue;
    for (int32_t i = 0; i < reduced.count; ++i) {
      const auto along = state_->numbers_along(state_->dims[reduced.first + i]);
      atoms.insert(atoms.end(), along.begin(), along.end());
    }
  }
  return atoms;
}

DimSet GroupSpace::reduced(size_t node) const {
  DimSet set;
  for (const int32_t atom : reduced_atoms(node)) set = set | DimSet::of(atom);
  return set;
}

DimAtoms GroupSpace::dims(Value value) const {
  const auto* result = state_->find_result(value);
  DIPTYCH_ASSERT(result, "the group does not make value {}", value.id);
  return atoms_of(*state_, *result);
}

std::vector<std::pair<Value, DimAtoms>> GroupSpace::uses_of(size_t node) const {
  std::vector<std::pair<Value, DimAtoms>> uses;
  for (const OperandUse& use : state_->operand_uses) {
    if (use.node == node) uses.emplace_back(use.value, atoms_of(*state_, state_->uses[use.use]));
  }
  return uses;
}

DimAtoms GroupSpace::used_dims(size_t node, Value value) const {
  for (const auto& [used, dims] : uses_of(node)) {
    if (used == value) return dims;
  }
  DIPTYCH_ASSERT(false, "node {} of the group does not use value {}", node, value.id);
}

}  // namespace diptych::detail
