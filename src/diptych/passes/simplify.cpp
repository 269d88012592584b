#include "diptych/passes/simplify.h"

#include "diptych/passes/merge_common_nodes.h"
#include "diptych/passes/remove_dead_nodes.h"
#include "diptych/passes/remove_needless_copies.h"
#include "diptych/passes/remove_needless_views.h"
#include "diptych/passes/run_pass.h"

namespace diptych::detail {

Graph simplify(Graph graph, const Evaluator& evaluator, const SimplifyOptions& options) {
  const bool stops = options.keep_gradient_stops;
  const auto run = [&](const char* name, const auto& pass) { graph = run_pass(name, graph, pass); };
  // Views first: a copy may be of a view that turns out to be the tensor itself.
  run("remove_needless_views",
      [&](const Graph& g) { return remove_needless_views(g, {.keep_gradient_stops = stops}); });
  run("remove_needless_copies",
      [&](const Graph& g) { return remove_needless_copies(g, {.keep_gradient_stops = stops}); });
  // After both, so that nodes that now read the same tensor are found equal.
  run("merge_common_nodes", [&](const Graph& g) { return merge_common_nodes(g); });
  if (evaluator && options.fold_constants)
    run("fold_constants", [&](const Graph& g) { return fold_constants(g, evaluator); });
  run("remove_dead_nodes", [&](const Graph& g) { return remove_dead_nodes(g); });
  return graph;
}

}  // namespace diptych::detail
