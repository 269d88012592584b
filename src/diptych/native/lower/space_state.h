// What a GroupSpace knows, in flat arrays: it is copied at each trial.
#pragma once
#include <span>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/kernel/index_map.h"
#include "diptych/native/lower/axes.h"

namespace diptych::detail {

/// Axes of a value's dims, a run of SpaceState::dims.
struct PlacedDims {
  Value value;
  int32_t first = 0;
  int32_t count = 0;
};

/// That a node uses a value which the group does not make.
struct OperandUse {
  size_t node = 0;
  Value value;
  int32_t use = 0;  ///< in SpaceState::uses
};

struct ReducedAxes {
  size_t node = 0;
  int32_t first = 0;
  int32_t count = 0;
};

struct SpaceState {
  static constexpr int32_t kNoAxis = -1;  ///< of a dim of size 1

  Axes axes;
  std::vector<int32_t> dims;
  std::vector<PlacedDims> results;
  std::vector<PlacedDims> uses;  ///< those of no value are axes that must stay apart
  std::vector<OperandUse> operand_uses;
  std::vector<ReducedAxes> reduced;
  std::vector<Value> read_apart;  ///< values that are read at other places
  std::vector<size_t> nodes;
  std::vector<int32_t> atoms;  ///< in the order of their numbers
  /// What number_atoms() saw last, so that it looks at what is new alone.
  size_t seen_results = 0, seen_uses = 0, seen_changes = 0;

  /// The place of a value that the group makes; null if it makes none.
  const PlacedDims* find_result(Value value) const;
  std::span<const int32_t> dims_of(const PlacedDims& placed) const {
    return {dims.data() + placed.first, size_t(placed.count)};
  }
  int32_t append(std::span<const int32_t> axes_of_dims);

  /// Numbers the atoms that values run along. Returns false if a value runs along one twice, or there are more than a
  /// DimSet holds: the space is then none.
  bool number_atoms();
  int32_t number_of(int32_t atom) const;
  bool number_atoms_of(const PlacedDims& placed);
  /// The atoms of an axis by number.
  std::vector<int32_t> numbers_along(int32_t axis) const;
};

}  // namespace diptych::detail
