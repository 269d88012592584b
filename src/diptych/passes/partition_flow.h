// The choice of saved values as a minimum cut between what only the forward can make and what the backward reads.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "diptych/passes/joint_analysis.h"

namespace diptych::detail {

/// What saving a value costs that lives anyway.
enum class PrimalPrice : uint8_t {
  kLittle,   ///< less than a new value: ties are broken in favour of saving less in total
  kNothing,  ///< nothing
  kAsEager,  ///< nothing where eager saves it; elsewhere it must not be saved, since the user may write to it
};

/// What the backward has to have.
enum class Wanted : uint8_t {
  kRead,        ///< what its nodes and the gradients read
  kEagersSaves  ///< all that eager saves, too: a backward of other tangents, or under autocast, may read any of it
};

/// Prices of one cut. Units: 1/64 byte saved, so that recomputing can cost less than a byte.
struct FlowCosts {
  /// Returns the price of running a forward node again in the backward; nullopt if it must not run again.
  std::function<std::optional<int64_t>(const Node&)> recompute;
  /// With kAsEager the backward has to have what eager saves, otherwise what it reads.
  PrimalPrice primals = PrimalPrice::kLittle;
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
/// with as many elements, and every wanted value can be computed from them.
FlowChoice cut_joint(const JointAnalysis& analysis, const FlowCosts& costs);

/// Returns the saved values that follow from a choice of recomputed nodes: what the backward reads and does not
/// recompute.
/// Requires: `recomputed` holds no node with an effect.
std::vector<Value> saved_for(const JointAnalysis& analysis, const std::vector<bool>& recomputed,
                             Wanted wanted = Wanted::kRead);

}  // namespace diptych::detail
