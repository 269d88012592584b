// Splitting a joint graph into a forward and a backward graph: which values the forward saves for the backward.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych {

/// How the slots of a joint graph are divided. Joint inputs: arguments, free variables, tangents. Joint outputs: the
/// user's outputs, new values of mutated inputs, then one gradient per input (none where nothing flows), then those of
/// crossings: see Note [Stages of a backward].
struct JointLayout {
  size_t num_arguments = 0;
  size_t num_free_variables = 0;
  size_t num_tangents = 0;
  size_t num_outputs = 0;
  size_t num_mutated = 0;
  size_t num_crossings = 0;

  size_t num_primals() const { return num_arguments + num_free_variables; }
  size_t num_forward_outputs() const { return num_outputs + num_mutated; }
  size_t num_gradients() const { return num_primals() + num_crossings; }
};

/// A joint graph with its layout.
struct Joint {
  Graph graph;
  JointLayout layout;
};

/// Forward graph (primals) -> (outputs, mutated, residuals) and backward graph (residuals, tangents) -> (gradients).
struct Split {
  Graph forward;
  Graph backward;
  JointLayout layout;
  /// The joint graph's values that are saved, in order; the residual slots of both graphs follow it.
  std::vector<Value> saved;
};

/// Chooses what is saved: values of the joint graph that do not depend on a tangent and from which, with the tangents,
/// every gradient can be computed.
struct Partitioner {
  std::string name;  ///< as --partition takes it: "default", "min_cut", "hidden_min_cut", "memory_budget(0.5)"
  std::function<std::vector<Value>(const Joint&)> choose;
};

/// Saves what the nodes of the backward read, as eager does.
Partitioner default_partition();
/// Saves the fewest bytes: max-flow on the joint graph, recomputing cheap operators in the backward graph. Views are
/// free; compute-heavy and random operators are not recomputed. A user output is saved only if eager saves it too,
/// since the user may write to it. Never keeps more bytes than default_partition. Source: Chen et al.,
/// arXiv:1604.06174, and the min-cut formulation of PyTorch's rematerialization partitioner.
Partitioner min_cut();
/// Saves the fewest bytes among values that the user cannot reach: an input or a result is saved exactly where eager
/// saves it, so that writing to one between forward and backward is an error where it is one in eager, and nowhere
/// else. All that eager saves can be computed from it, for other backwards. Recomputes what min_cut may, but for
/// functions such as exp, which take longer than a read: for backends that fuse what they do.
Partitioner hidden_min_cut();
/// Saves an amount between that of min_cut with everything recomputable recomputed (0) and that of default (1). Saved
/// bytes never grow as `fraction` falls. Errors: UserError if `fraction` is outside [0, 1].
Partitioner memory_budget(double fraction);
/// Finds a partitioner by name, "memory_budget(0.3)" included. Errors: UserError lists the names.
Partitioner partitioner_by_name(std::string_view name);

/// Splits by the partitioner's choice, corrected by the marks of checkpoint regions (graph/rematerialization.h):
/// whatever the partitioner chose, values marked to be recomputed are not saved, and values marked to be saved are not
/// recomputed. Random nodes stay in the forward graph, used or not. Recomputed nodes come just before their first use
/// in the backward graph. Errors: UserError if the partitioner chose a value that depends on a tangent; InternalError
/// if a gradient can't be computed, because an input or a value that must not be made twice was not saved.
Split split_joint(const Joint& joint, const Partitioner& partitioner);
namespace detail {
/// Returns the backward graph for other gradients of the same forward nodes (a backward variant): `joint` shares its
/// forward nodes, and their value numbers, with the one that was split.
Graph split_backward(const Joint& joint, const std::vector<Value>& saved);
}  // namespace detail

/// One row of explain(): a residual, its bytes, the node that makes it and the nodes that read it.
struct ResidualRow {
  std::string value;    ///< "%12"
  std::string type;     ///< "f32[64,256]"
  int64_t bytes = 0;    ///< new storage that it keeps alive; 0 if an input, an output or an earlier row already has it
  std::string made_by;  ///< "aten.tanh in block0", "input params.w"
  std::string wanted_by;  ///< "aten.tanh_backward"
};
std::vector<ResidualRow> explain_rows(const Split& split);
/// Returns explain_rows() as an aligned table with a line of totals, and one for each checkpoint region that is
/// recomputed.
std::string explain(const Split& split);
/// Returns the bytes of new storage that the forward keeps alive for the backward: the storages of residuals that
/// belong neither to an input nor to a user's output, each once.
int64_t residual_bytes(const Split& split);

}  // namespace diptych
