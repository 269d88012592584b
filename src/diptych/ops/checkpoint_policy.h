// What a checkpoint region saves for the backward, and what it computes again there.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// Decides about the nodes of a checkpoint region, once the whole function has been traced. Make one with the functions
/// below, or with a rule of your own: `CheckpointPolicy{"mine", [](const Graph& graph, const Node& node) { ... }}`.
/// A view is no value of its own: what is decided of a view that is to be saved holds for the tensor under it, too.
/// Whatever the policy, nodes that draw random numbers are saved; see Note [Checkpoint regions].
struct CheckpointPolicy {
  std::string name;  ///< as messages show it: "save_names(q, k)"
  /// Says what becomes of a node's values. Must depend on its arguments alone.
  std::function<Rematerialize(const Graph&, const Node&)> decide = {};
  /// Residual names that some value of the function must have, given by name_residual().
  std::vector<std::string> residual_names = {};
  /// If set, it takes the place of `decide`: the fraction that save_within_budget() explains.
  std::optional<double> budget = {};
};

/// Recomputes everything: of a region, its inputs are saved.
CheckpointPolicy save_nothing();
/// Recomputes what is cheap and as large as what it is made from: pointwise operators, copies, casts, views and
/// constants. Saves reductions, matrix products and the rest.
CheckpointPolicy save_everything_but_pointwise();
/// Saves the results of matrix products, convolutions and attention, whose time is worth their memory; recomputes the
/// rest.
CheckpointPolicy save_matrix_products();
/// Saves the values that carry one of `names`, given by name_residual(); recomputes the rest.
/// Errors: at the end of the capture, UserError if no value of the function carries a name; it lists those there are.
CheckpointPolicy save_names(std::vector<std::string> names);
/// Of the bytes that the default partition would save of the region's own values, keeps at most `fraction`, 0 to 1: the
/// values whose recomputation would cost most, found by cuts at growing prices as memory_budget() finds them. Saved
/// bytes never grow as `fraction` falls. Where recomputing from an inner value needs less memory than from the region's
/// inputs, that value is kept even at 0. 1 leaves the region to the partitioner.
/// Errors: UserError if `fraction` is outside [0, 1].
CheckpointPolicy save_within_budget(double fraction);

namespace detail {

/// A region that a trace has met.
struct CheckpointedRegion {
  InternedString path;
  CheckpointPolicy policy;
};

/// The regions of a trace, outer ones before those inside them, and the residual names that were given to inputs, which
/// no node makes and the caller keeps anyway.
struct CheckpointedRegions {
  std::vector<CheckpointedRegion> regions;
  std::vector<InternedString> input_names;
};

}  // namespace detail
}  // namespace diptych
