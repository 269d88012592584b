#include "diptych/compile/pipeline.h"

#include "diptych/passes/keep_outputs_apart.h"

namespace diptych {

Joint prepare_joint(Joint joint, const AotOptions& options) { return joint; }

Graph finish_forward(const Graph& forward, const std::vector<size_t>& mutated) {
  Graph graph = forward;
  graph = keep_outputs_apart(graph, forward);
  // Last, since it is about what the caller does after the graph has run.
  return keep_residuals_of_mutated_inputs(graph, mutated);
}

Graph finish_backward(const Graph& backward) { return backward; }

}  // namespace diptych
