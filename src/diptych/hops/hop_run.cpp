// Running a hop outside any capture: as a graph of one node, optimized as a captured graph would be.
#include <algorithm>

#include "diptych/hops/hop.h"
#include "diptych/hops/optimize_scans.h"
#include "diptych/hops/scan_edit.h"
#include "diptych/hops/strides.h"
#include "diptych/interpreter/evaluate.h"

namespace diptych {
namespace {

Graph one_node_graph(const Hop& hop, const std::vector<TensorMeta>& operands, size_t num_returned) {
  Graph graph("hop");
  std::vector<Value> inputs;
  for (const TensorMeta& operand : operands) {
    inputs.push_back(graph.add_input(operand, {SlotKind::kArgument, fmt::format("operand.{}", inputs.size())}));
  }
  Node node = hop.node(inputs);
  node.returns.assign(hop.num_results(), -1);
  graph.add_node(std::move(node), {hop.results().begin(), hop.results().end()});
  std::vector<Slot> slots;
  for (size_t i = 0; i < hop.num_results(); ++i) {
    const auto kind = i < num_returned ? SlotKind::kOutput : SlotKind::kResidual;
    slots.push_back({kind, fmt::format("result.{}", i)});
  }
  const auto& outputs = graph.nodes().back().outputs;
  graph.set_outputs({outputs.begin(), outputs.end()}, std::move(slots));
  return graph;
}

bool shares_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && a.storage().is_alias_of(b.storage());
}

// Writing to one then counts as writing to the other, and a backward that reads it says so.
void share_versions(const std::vector<at::Tensor>& owners, size_t num_owners, const at::Tensor& residual) {
  for (size_t i = 0; i < num_owners; ++i) {
    if (!shares_memory(owners[i], residual) || owners[i].is_inference() || residual.is_inference()) continue;
    residual.unsafeGetTensorImpl()->set_version_counter(owners[i].unsafeGetTensorImpl()->version_counter());
    return;
  }
}

}  // namespace

const Hop::OptimizedRun& Hop::optimized(const std::vector<at::Tensor>& operands, size_t num_returned) const {
  const std::lock_guard lock(mutex_);
  for (const auto& known : runs_) {
    if (known.num_returned == num_returned) return known;
  }
  std::vector<TensorMeta> metas;
  for (const at::Tensor& operand : operands) {
    const bool is_dense = operand.is_non_overlapping_and_dense();
    metas.push_back(is_dense ? TensorMeta::of(operand) : contiguous(TensorMeta::of(operand)));
  }
  Graph graph = one_node_graph(*this, metas, num_returned);
  std::shared_ptr<const Program> program;
  if (detail::has_scan(graph)) {
    program = std::make_shared<const Program>(simplify(optimize_scans(graph), evaluate));
  }
  return runs_.emplace_back(OptimizedRun{num_returned, std::move(metas), std::move(program)});
}

std::vector<at::Tensor> Hop::run(std::vector<at::Tensor>&& operands, size_t num_returned) const {
  const OptimizedRun& found = optimized(operands, num_returned);
  if (!found.program) return kernel()(std::move(operands));
  const std::vector<at::Tensor> owners = operands;
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = with_strides(operands[i], found.operands[i]);
  auto results = found.program->run(std::move(operands));
  for (size_t i = num_returned; i < results.size(); ++i) {
    share_versions(owners, owners.size(), results[i]);
    share_versions(results, num_returned, results[i]);
  }
  return results;
}

}  // namespace diptych
