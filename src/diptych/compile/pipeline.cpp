#include "diptych/compile/pipeline.h"

#include "diptych/graph/rewrite.h"
#include "diptych/scan_passes/optimize_scans.h"
#include "diptych/scan_passes/reuse_scan_stacks.h"
#include "diptych/scan_passes/scan_edit.h"
#include "diptych/interpreter/evaluate.h"
#include "diptych/passes/decompose.h"
#include "diptych/passes/keep_residuals.h"
#include "diptych/passes/run_pass.h"
#include "diptych/passes/simplify.h"

namespace diptych {
namespace {

// Everything stays but the named operators; "all" names every one that has a rule.
KeepsNode kept_nodes(const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), "all") != names.end()) return {};
  std::vector<Op> wanted;
  for (const auto& name : names) wanted.push_back(Op::find(name));
  return [wanted](const Graph&, const Node& node) {
    return std::find(wanted.begin(), wanted.end(), node.op) == wanted.end();
  };
}

// Whether its forward has one, which is so of all variants of a joint or of none.
bool scans_forward(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.provenance.phase == Phase::kForward && detail::has_scan(node);
  });
}

// What leaves a loop is simplified with what was around it.
Graph finish(const Graph& graph, const SimplifyOptions& options) {
  const Graph simple = simplify(graph, evaluate, options);
  return detail::has_scan(simple) ? simplify(optimize_scans(simple, options), evaluate, options) : simple;
}

}  // namespace

Joint prepare_joint(Joint joint, const AotOptions& options) {
  const bool scans = scans_forward(joint.graph);
  if (!scans && options.decompositions.empty()) return joint;
  // What is saved is known by number in every variant of a joint, whether or not a pass finds something to do in it.
  joint.graph = renumber(joint.graph);
  // Before the partition, which then finds one residual where there were two.
  if (scans) joint.graph = run_pass("reuse_scan_stacks", joint.graph, reuse_scan_stacks);
  if (options.decompositions.empty()) return joint;
  const auto keeps = kept_nodes(options.decompositions);
  joint.graph = run_pass("decompose", joint.graph, [&](const Graph& graph) { return decompose(graph, keeps); });
  return joint;
}

Graph finish_forward(const Graph& forward, const std::vector<size_t>& mutated, const SimplifyOptions& options) {
  const Graph graph = finish(forward, options);
  // Last, since it is about what the caller does after the graph has run.
  return keep_residuals_of_mutated_inputs(graph, mutated);
}

Graph finish_backward(const Graph& backward, const SimplifyOptions& options) { return finish(backward, options); }

}  // namespace diptych
