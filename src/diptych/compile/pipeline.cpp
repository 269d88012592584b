#include "diptych/compile/pipeline.h"

#include "diptych/hops/optimize_scans.h"
#include "diptych/hops/reuse_scan_stacks.h"
#include "diptych/hops/scan_edit.h"
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

// What leaves a loop is simplified with what was around it.
Graph finish(const Graph& graph, const SimplifyOptions& options) {
  const Graph simple = simplify(graph, evaluate, options);
  return detail::has_scan(simple) ? simplify(optimize_scans(simple, options), evaluate, options) : simple;
}

}  // namespace

Joint prepare_joint(Joint joint, const AotOptions& options) {
  // Before the partition, which then finds one residual where there were two.
  joint.graph = run_pass("reuse_scan_stacks", joint.graph, reuse_scan_stacks);
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
