// The choice of saved values as a minimum cut between what only the forward can make and what the backward reads.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "diptych/passes/joint_analysis.h"

namespace diptych::detail {

/// Prices of one cut. Units: 1/64 byte saved, so that recomputing can cost less than a byte.
struct FlowCosts {
  /// Returns the price of running a forward node again in the backward; nullopt if it must not run again.
  std::function<std::optional<int64_t>(const Node&)> recompute;
  /// Whether saving a primal costs something although it lives anyway (ties are then broken in favour of saving less in
  /// total).
  bool price_primals = true;
};

/// The price of a byte, in the units of FlowCosts.
constexpr int64_t kPricePerByte = 64;

/// Result of a cut.
struct FlowChoice {
  std::vector<Value> saved;      ///< by number
  std::vector<bool> recomputed;  ///< per node: runs (again) in the backward although it does not depend on tangents
};

/// Finds the cheapest set of saved values. Among cuts of equal price it takes the one that recomputes least.
/// Ensures: a saved value is the base of its views, except where the backward reads that base through a single view
/// with as many elements, and every value of required(false) can be computed from them.
FlowChoice cut_joint(const JointAnalysis& analysis, const FlowCosts& costs);

/// Returns the saved values that follow from a choice of recomputed nodes: what the backward reads and does not
/// recompute.
/// Requires: `recomputed` holds no node with an effect.
std::vector<Value> saved_for(const JointAnalysis& analysis, const std::vector<bool>& recomputed);

}  // namespace diptych::detail
