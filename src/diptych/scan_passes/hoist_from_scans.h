// Moves computations that can be done for all steps before the loop out of scans.
//
//   h' = tanh(mm(x, W) + mm(h, U))  for slices x   ==>   h' = tanh(p + mm(h, U))  for slices p of one product of all x
#pragma once
#include "diptych/scan_passes/scan_edit.h"

namespace diptych::detail {

/// Returns `graph` with whatever depends on no carry moved out of the bodies of scans, if computing it before the loop
/// is less work; see Note [What is hoisted]. Nothing is moved across random numbers. Rounding may differ: large matrix
/// products add up in another order. Slots of the graph are kept; idempotent.
Graph hoist_from_scans(const Graph& graph);

struct HoistOptions {
  bool only_fixed = false;  ///< leave nodes that read slices in the loop
};
/// Hoists from one scan; returns false if there is nothing to hoist.
bool hoist(ScanEdit& edit, const HoistOptions& options);

}  // namespace diptych::detail
