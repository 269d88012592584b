// What the lowerings of loops share: the operands and bodies of their nodes, rows of stacks, and loops that count.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {

/// The operands in one group of a higher-order node.
std::vector<Hlo> hop_group(const Lowering& node, std::string_view group);
const Graph& hop_body(const Lowering& node, size_t index);
/// Whether all results of all bodies are defined: absent ones have no place in a program.
bool returns_all(const Lowering& node);

/// Writes `count` rows of a stack from row `place` on; one row may come without its first dimension.
Hlo write_rows(HloWriter& writer, const Hlo& stack, const Hlo& values, const Hlo& place, int64_t count);
/// Returns `count` rows from row `place` on, as a tensor of `sizes`.
Hlo read_rows(HloWriter& writer, const Hlo& stack, const Hlo& place, int64_t count, const std::vector<int64_t>& sizes);

/// Starts of a slice that begins at `place` along `dim`, and at 0 elsewhere.
std::vector<Hlo> starts_along(HloWriter& writer, int64_t rank, int64_t dim, const Hlo& place);
/// The slice of size one at `place` along `dim`.
Hlo slice_at(HloWriter& writer, const Hlo& x, int64_t dim, const Hlo& place);

/// A predicate of one element, as a scalar.
Hlo predicate(HloWriter& writer, const Hlo& value);
/// Whether any of the flags is set, as a scalar: loops over all elements at once go on until the last is finished.
Hlo any_set(HloWriter& writer, const Hlo& flags);

/// One step of a loop: returns the next state. It sees its arguments and nothing else from outside.
using LoopStep = std::function<std::vector<Hlo>(HloWriter& writer, const Hlo& index, const std::vector<Hlo>& state,
                                                const std::vector<Hlo>& constant)>;
/// Runs a step for each index from `begin` to `end`, which are i64 scalars, and returns the last state. `constant`:
/// what steps read from outside.
std::vector<Hlo> counted_loop(HloWriter& writer, const Hlo& begin, const Hlo& end, const std::vector<Hlo>& state,
                              const std::vector<Hlo>& constant, const LoopStep& step);

}  // namespace diptych::detail
