#include "diptych/scan_passes/optimize_scans.h"

#include "diptych/graph/identical.h"
#include "diptych/scan_passes/block_scans.h"
#include "diptych/scan_passes/drop_constant_carries.h"
#include "diptych/scan_passes/drop_dead_scan_parts.h"
#include "diptych/scan_passes/hoist_from_scans.h"
#include "diptych/scan_passes/regroup_scan_sums.h"
#include "diptych/scan_passes/reuse_scan_stacks.h"
#include "diptych/scan_passes/scan_edit.h"
#include "diptych/scan_passes/sink_from_scans.h"
#include "diptych/interpreter/evaluate.h"
#include "diptych/passes/run_pass.h"

namespace diptych {
namespace {

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

Graph optimize_scans(const Graph& graph, const SimplifyOptions& options) {
  if (!detail::has_scan(graph)) return graph;
  Graph result = graph;
  const auto run = [&](const char* name, const auto& pass) { result = run_pass(name, result, pass); };
  // Dead parts first: what feeds them would keep the other passes from seeing what is left.
  run("drop_dead_scan_parts", drop_dead_scan_parts);
  run("drop_constant_carries", drop_constant_carries);
  run("regroup_scan_sums", regroup_scan_sums);
  // Before whole stacks are hoisted and sunk.
  run("block_scans", [&](const Graph& g) { return block_scans(g, options); });
  run("hoist_from_scans", hoist_from_scans);
  run("sink_from_scans", sink_from_scans);
  // After sinking, which stacks what it reads.
  run("reuse_scan_stacks", reuse_scan_stacks);
  run("simplify_scan_bodies", [&](const Graph& g) { return simplify_scan_bodies(g, options); });
  run("drop_dead_scan_parts", drop_dead_scan_parts);
  return result;
}

}  // namespace diptych
