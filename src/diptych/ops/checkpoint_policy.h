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
/// A view has no elements of its own, so a decision to save a view also saves the tensor under it.
/// Nodes that draw random numbers are saved under every policy; see Note [Checkpoint regions].
struct CheckpointPolicy {
  std::string name;  ///< as messages show it: "save_names(q, k)"
  /// Decides whether a node's values are saved or recomputed. Must depend on its arguments only.
  std::function<Rematerialize(const Graph&, const Node&)> decide = {};
  /// Residual names, given by name_residual(), each of which some value of the function must have.
  std::vector<std::string> residual_names = {};
  /// If set, it replaces `decide`: the fraction of save_within_budget().
  std::optional<double> budget = {};
};

/// Recomputes everything: only the inputs of a region are saved.
CheckpointPolicy save_nothing();
/// Recomputes values that are cheap and as large as their operands: pointwise operators, copies, casts, views and
/// constants. Saves reductions, matrix products and the rest.
CheckpointPolicy save_everything_but_pointwise();
/// Saves the results of matrix products, convolutions and attention, which take too long to recompute; recomputes the
/// rest.
CheckpointPolicy save_matrix_products();
/// Saves the values that carry one of `names`, given by name_residual(); recomputes the rest.
/// Errors: UserError at the end of the capture if no value of the function carries one of the names; it lists the names
/// that values carry.
CheckpointPolicy save_names(std::vector<std::string> names);
/// Keeps at most `fraction`, 0 to 1, of the bytes that the default partition would save for this region: the values
/// that would cost most to recompute, found by cuts at growing prices as memory_budget() finds them. Saved bytes never
/// grow as `fraction` falls. A value from which recomputing needs less memory than from the region's inputs is kept
/// even at 0. 1 leaves the region to the partitioner. Errors: UserError if `fraction` is outside [0, 1].
CheckpointPolicy save_within_budget(double fraction);

namespace detail {

/// A region that was opened in a trace.
struct CheckpointedRegion {
  InternedString path;
  CheckpointPolicy policy;
};

/// The regions of a trace, each before those inside it, and the residual names that were given to inputs, which no node
/// computes and the caller keeps anyway.
struct CheckpointedRegions {
  std::vector<CheckpointedRegion> regions;
  std::vector<InternedString> input_names;
};

}  // namespace detail
}  // namespace diptych
