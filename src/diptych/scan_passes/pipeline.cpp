#include "diptych/scan_passes/pipeline.h"

#include <algorithm>

#include "diptych/graph/identical.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/evaluate.h"
#include "diptych/passes/decompose.h"
#include "diptych/passes/keep_residuals.h"
#include "diptych/passes/run_pass.h"
#include "diptych/scan_passes/block_scans.h"
#include "diptych/scan_passes/drop_constant_carries.h"
#include "diptych/scan_passes/drop_dead_scan_parts.h"
#include "diptych/scan_passes/hoist_from_scans.h"
#include "diptych/scan_passes/regroup_scan_sums.h"
#include "diptych/scan_passes/reuse_scan_stacks.h"
#include "diptych/scan_passes/scan_edit.h"
#include "diptych/scan_passes/sink_from_scans.h"

namespace diptych::detail {
namespace {

// Note [The pipeline]: everything that is captured goes through this list, from top to bottom, and skips the steps that
// its row does not name. Compiling is the caller's last step: the graphs of aot_function go to their backend; those of
// a pair, a body and a backward run become Programs of the interpreter.
struct Steps {
  bool on_joint = false;         // (1) (2); the caller then splits the graph: split_joint() or split_backward()
  bool simplifies = false;       // (3)
  bool folds = false;            //     with constants folded
  bool optimizes_scans = false;  // (4)
  bool keeps_residuals = false;  // (5)
};

constexpr Steps steps_of(Stage stage) {
  switch (stage) {
    case Stage::kJoint:
      return {.on_joint = true};
    case Stage::kForward:
      return {.simplifies = true, .folds = true, .optimizes_scans = true, .keeps_residuals = true};
    case Stage::kBackward:
    case Stage::kHop:
      return {.simplifies = true, .folds = true, .optimizes_scans = true};
    case Stage::kBody:
      // Constants stay nodes: a later capture of the body would mistake a folded one for a free variable, which has no
      // operand. Scans inside are optimized with the graph that holds the operator.
      return {.simplifies = true};
    case Stage::kBackwardRun:
      // No step: eager nodes and hooks run between the nodes of this graph. They may write to the gradients that they
      // are given, which no pass can see, so that two equal nodes need not compute the same.
      return {};
  }
  return {};
}

// Keeps every node except those of the named operators; "all" names every operator that has a rule.
KeepsNode kept_nodes(const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), "all") != names.end()) return {};
  std::vector<Op> wanted;
  for (const auto& name : names) wanted.push_back(Op::find(name));
  return [wanted](const Graph&, const Node& node) {
    return std::find(wanted.begin(), wanted.end(), node.op) == wanted.end();
  };
}

// Whether the forward of a joint graph holds a scan: either all variants of one capture do, or none.
bool scans_forward(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.provenance.phase == Phase::kForward && detail::has_scan(node);
  });
}

Graph lower_to_split(Graph graph, const LowerOptions& options) {
  const bool scans = scans_forward(graph);
  if (!scans && options.decompositions.empty() && !options.prepare) return graph;
  // Saved values have the same number in every variant of a joint graph, so all variants are renumbered, whether or not
  // a pass finds something to do.
  graph = renumber(graph);
  // (1) Before the split, which then finds one residual where there were two.
  if (scans) graph = run_pass("reuse_scan_stacks", graph, reuse_scan_stacks);
  // (2) Before the split, which may then recompute only a part of what was one operator.
  if (!options.decompositions.empty()) {
    const auto keeps = kept_nodes(options.decompositions);
    graph = run_pass("decompose", graph, [&](const Graph& joint) { return decompose(joint, keeps); });
  }
  return options.prepare ? options.prepare(graph) : graph;
}

Graph simplify_scan_bodies(const Graph& graph, const SimplifyOptions& options) {
  return detail::rewrite_scans(graph, "simplify_scan_bodies", [&](detail::ScanEdit& edit) {
    Graph body = simplify(edit.body(), evaluate, options);
    if (identical(body, edit.body())) return false;
    edit.set_body(std::move(body));
    edit.map_all(edit.write());
    return true;
  });
}

}  // namespace

Graph lower(Stage stage, Graph graph, const LowerOptions& options) {
  const Steps steps = steps_of(stage);
  if (steps.on_joint) return lower_to_split(std::move(graph), options);
  const Evaluator evaluator = steps.folds ? Evaluator(evaluate) : nullptr;
  // (3) Views, copies, common nodes, constants, dead nodes: simplify.cpp has their order.
  if (steps.simplifies) graph = simplify(std::move(graph), evaluator, options.simplify);
  // (4) On simplified graphs; then (3) once more, since nodes that have left a loop are simplified with those around
  // it.
  if (steps.optimizes_scans && detail::has_scan(graph)) {
    graph = simplify(optimize_scans(graph, options.simplify), evaluator, options.simplify);
  }
  // (5) Last, since it is about what the caller does after the graph has run.
  if (steps.keeps_residuals) graph = keep_residuals_of_mutated_inputs(graph, options.mutated);
  return graph;
}

Joint lower_joint(Joint joint, const std::vector<std::string>& decompositions, const PrepareJoint& prepare) {
  joint.graph = lower(Stage::kJoint, std::move(joint.graph), {.decompositions = decompositions, .prepare = prepare});
  return joint;
}

Graph optimize_scans(const Graph& graph, const SimplifyOptions& options) {
  if (!detail::has_scan(graph)) return graph;
  Graph result = graph;
  const auto run = [&](const char* name, const auto& pass) { result = run_pass(name, result, pass); };
  // Dead parts first: nodes that feed only them would keep the other passes from seeing what is left.
  run("drop_dead_scan_parts", drop_dead_scan_parts);
  run("drop_constant_carries", drop_constant_carries);
  run("regroup_scan_sums", regroup_scan_sums);
  // Before whole stacks are hoisted and sunk.
  run("block_scans", [&](const Graph& g) { return block_scans(g, options); });
  run("hoist_from_scans", hoist_from_scans);
  run("sink_from_scans", sink_from_scans);
  // After sinking, which adds stacks of the values that it reads.
  run("reuse_scan_stacks", reuse_scan_stacks);
  run("simplify_scan_bodies", [&](const Graph& g) { return simplify_scan_bodies(g, options); });
  run("drop_dead_scan_parts", drop_dead_scan_parts);
  return result;
}

}  // namespace diptych::detail
