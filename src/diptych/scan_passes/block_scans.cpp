#include "diptych/scan_passes/block_scans.h"

#include "diptych/interpreter/evaluate.h"
#include "diptych/ops/tags.h"
#include "diptych/scan_passes/body_flow.h"
#include "diptych/scan_passes/hoist_from_scans.h"
#include "diptych/scan_passes/scan_edit.h"
#include "diptych/scan_passes/sink_from_scans.h"

namespace diptych::detail {
namespace {

// The number of steps in a block of this scan, or 0 to leave the scan as it is.
int64_t block_of(const ScanEdit& edit, const BlockLimits& limits) {
  const int64_t length = edit.attributes.length;
  const int64_t step_bytes = detail::BodyFlow(edit).step_bytes();
  if (step_bytes == 0 || step_bytes * length < limits.least_bytes) return 0;
  for (int64_t block = std::max(limits.fewest_steps, limits.block_bytes / step_bytes); block >= limits.fewest_steps;
       --block) {
    if (length % block == 0) return block < length ? block : 0;
  }
  return 0;
}

// Returns a graph that holds a scan of `block` steps over the body as it is.
Graph scan_of_block(const ScanEdit& edit, int64_t block) {
  Graph graph("block");
  std::vector<ValueList> groups(3);
  const Graph& body = edit.body();
  for (const auto& carry : edit.carries) groups[0].push_back(graph.add_input(body.meta(carry.in), carry.in_slot));
  for (const auto& slice : edit.slices) {
    groups[1].push_back(graph.add_input(stacked(body.meta(slice.in), block), slice.slot));
  }
  for (const auto& operand : edit.free) groups[2].push_back(graph.add_input(body.meta(operand.in), operand.slot));
  ScanAttributes attributes = edit.attributes;
  attributes.length = block;
  attributes.fronts.clear();
  const auto results = scan_results(body, edit.carries.size(), attributes);
  Node node = make_hop_node(scan_schema(), groups, scan_attributes(attributes), edit.node().subgraphs);
  node.provenance = edit.node().provenance;
  node.provenance.grad_of = {};
  node.grad_enabled = edit.node().grad_enabled;
  node.returns.assign(results.size(), -1);
  const size_t index = graph.add_node(std::move(node), {results.begin(), results.end()});
  const auto& outputs = graph.nodes()[index].outputs;
  // Residual slots let these outputs share memory: whoever runs a body copies what leaves it.
  std::vector<Slot> slots;
  for (const Slot& slot : body.output_slots()) slots.push_back({SlotKind::kResidual, slot.path});
  graph.set_outputs({outputs.begin(), outputs.end()}, std::move(slots));
  return graph;
}

// Whether the graph does compute-heavy work outside the scan.
bool has_work(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Node& node) { return !node.op.is_hop() && has_tag(node.op, Tag::kComputeHeavy); });
}

bool make_blocked(ScanEdit& edit, const SimplifyOptions& options, const BlockLimits& limits) {
  const int64_t block = block_of(edit, limits);
  if (block == 0) return false;
  Graph graph = simplify(sink_from_scans(hoist_from_scans(scan_of_block(edit, block))), evaluate, options);
  if (!has_work(graph)) return false;
  graph.set_outputs(graph.outputs(), edit.body().output_slots());
  edit.map_all(edit.write_blocked(std::make_shared<const Graph>(std::move(graph)), block));
  return true;
}

}  // namespace

Graph block_scans(const Graph& graph, const SimplifyOptions& options, const BlockLimits& limits) {
  // Values that are the same in every step are hoisted first; they would otherwise be computed once per block.
  const Graph hoisted = detail::rewrite_scans(graph, "block_scans", [&](ScanEdit& edit) {
    return block_of(edit, limits) > 0 && detail::hoist(edit, {.only_fixed = true});
  });
  return detail::rewrite_scans(hoisted, "block_scans",
                               [&](ScanEdit& edit) { return make_blocked(edit, options, limits); });
}

}  // namespace diptych::detail
