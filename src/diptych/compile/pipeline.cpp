#include "diptych/compile/pipeline.h"

#include "diptych/compile/run_guards.h"
#include "diptych/interpreter/program.h"
#include "diptych/passes/decompose.h"
#include "diptych/passes/fold_constants.h"
#include "diptych/passes/keep_residuals.h"
#include "diptych/passes/merge_common_nodes.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "diptych/passes/remove_needless_copies.h"
#include "diptych/passes/remove_needless_views.h"
#include "diptych/passes/run_pass.h"

namespace diptych {
namespace {

std::vector<at::Tensor> evaluate(const Graph& graph) {
  const RunBelowAutograd guard;
  return Program(graph).run({});
}

Graph simplify(Graph graph, const PipelineOptions& options) {
  const bool stops = options.keep_gradient_stops;
  const auto run = [&](const char* name, const auto& pass) { graph = run_pass(name, graph, pass); };
  // Views first: a copy may be of a view that turns out to be the tensor itself.
  run("remove_needless_views",
      [&](const Graph& g) { return remove_needless_views(g, {.keep_gradient_stops = stops}); });
  run("remove_needless_copies",
      [&](const Graph& g) { return remove_needless_copies(g, {.keep_gradient_stops = stops}); });
  // After both, so that what reads the same tensor is seen to.
  run("merge_common_nodes", [&](const Graph& g) { return merge_common_nodes(g); });
  run("fold_constants", [&](const Graph& g) { return fold_constants(g, evaluate); });
  run("remove_dead_nodes", [&](const Graph& g) { return remove_dead_nodes(g); });
  return graph;
}

}  // namespace

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

}  // namespace

Joint prepare_joint(Joint joint, const AotOptions& options) {
  if (options.decompositions.empty()) return joint;
  const auto keeps = kept_nodes(options.decompositions);
  joint.graph = run_pass("decompose", joint.graph, [&](const Graph& graph) { return decompose(graph, keeps); });
  return joint;
}

Graph finish_forward(const Graph& forward, const std::vector<size_t>& mutated, const PipelineOptions& options) {
  const Graph graph = simplify(forward, options);
  // Last, since it is about what the caller does after the graph has run.
  return keep_residuals_of_mutated_inputs(graph, mutated);
}

Graph finish_backward(const Graph& backward, const PipelineOptions& options) { return simplify(backward, options); }

}  // namespace diptych
