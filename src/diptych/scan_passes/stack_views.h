// Finds the rows of a body's value among the results of its scan, and answers other small questions about results.
#pragma once
#include "diptych/scan_passes/scan_edit.h"

namespace diptych::detail {

/// Whether a stack of the scan holds the rows of `value`: one of the value itself, or one with a front whose carry goes
/// in as `value`; see Note [Stacks with a front].
bool has_rows_of(const ScanEdit& edit, Value value);

/// Returns the rows of `value` in the results of the written scan: a stack, or a view of one with a front.
/// Requires: has_rows_of().
Value rows_of(Emitter& emitter, const ScanEdit& edit, const ScanEdit::Results& results, Value value);

/// Returns as many rows of a stack with a front as `scan` has steps: those of the carry as it goes in, or as it comes
/// out.
Value rows_of_carry(Emitter& emitter, Value stack, const ScanAttributes& scan, bool going_in);

/// Whether a value is known to be zeros: made by an operator such as aten.zeros, or a constant full of zeros.
bool is_zeros(const Graph& graph, Value value);

}  // namespace diptych::detail
