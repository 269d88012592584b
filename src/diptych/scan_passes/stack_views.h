// The rows that a value of a scan's body has in the scan's results, and other small questions about results.
#pragma once
#include "diptych/scan_passes/scan_edit.h"

namespace diptych::detail {

/// Whether a stack of the scan holds the rows of `value`: one of the value itself, or one with a front whose carry goes
/// in as `value`; see Note [Stacks with a front].
bool has_rows_of(const ScanEdit& edit, Value value);

/// The rows of `value` in what the scan was written as: a stack, or a view of one with a front.
/// Requires: has_rows_of().
Value rows_of(Emitter& emitter, const ScanEdit& edit, const ScanEdit::Results& results, Value value);

/// `length` rows of a stack with a front: those of the carry as it goes in, or as it comes out.
Value rows_of_carry(Emitter& emitter, Value stack, const ScanAttributes& scan, bool going_in);

/// Whether a value is known to be zeros: made as such, or a constant full of them.
bool is_zeros(const Graph& graph, Value value);

}  // namespace diptych::detail
