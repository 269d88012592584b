#include "diptych/xla/hlo/recomputation_barriers.h"

#include <algorithm>

#include "diptych/graph/recomputation.h"
#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {

bool RecomputationBarriers::is_recomputed_in(Value value, InternedString region) const {
  const Node* const maker = graph_.producer(value);
  return maker != nullptr && is_checkpoint_recomputation(maker->provenance) && maker->provenance.region == region;
}

// The tensors that node `index`, which is recomputed, reads and that its region's recomputation does not make.
std::vector<Value> RecomputationBarriers::outside_operands(size_t index) const {
  const Node& node = graph_.nodes()[index];
  std::vector<Value> outside;
  for_each_operand_value(node, [&](Value value) {
    const bool is_new = std::find(outside.begin(), outside.end(), value) == outside.end();
    if (is_new && !is_recomputed_in(value, node.provenance.region)) outside.push_back(value);
  });
  return outside;
}

bool RecomputationBarriers::is_gradient(Value value) const {
  const ValueInfo& info = graph_.info(value);
  if (info.kind == ValueInfo::Kind::kInput) return graph_.input_slots()[info.index].kind == SlotKind::kTangent;
  return info.kind == ValueInfo::Kind::kNode && graph_.nodes()[info.node].provenance.phase == Phase::kBackward;
}

// Returns a gradient that the first reader of nodes [begin, end) reads too, if it is there before them; else none.
Value RecomputationBarriers::awaited_gradient(size_t begin, size_t end) const {
  const auto& nodes = graph_.nodes();
  const auto is_made_here = [&](Value value) {
    const auto node = graph_.info(value).node;
    return node >= static_cast<int64_t>(begin) && node < static_cast<int64_t>(end);
  };
  for (size_t i = end; i < nodes.size(); ++i) {
    bool reads_region = false;
    Value gradient;
    for_each_operand_value(nodes[i], [&](Value value) {
      reads_region = reads_region || is_made_here(value);
      if (is_gradient(value) && graph_.info(value).node < static_cast<int64_t>(begin)) gradient = value;
    });
    if (reads_region) return gradient;
  }
  return {};
}

// Puts a barrier before a stretch of recomputed nodes of one region, which begins at node `begin`.
void RecomputationBarriers::open_region(HloWriter& writer, size_t begin, const std::vector<Hlo>& values) {
  const auto& nodes = graph_.nodes();
  const InternedString region = nodes[begin].provenance.region;
  auto& behind = behind_[region.str()];
  std::vector<Value> missing;
  size_t end = begin;
  for (; end < nodes.size() && is_checkpoint_recomputation(nodes[end].provenance); ++end) {
    if (!(nodes[end].provenance.region == region)) break;
    for (const Value value : outside_operands(end)) {
      const bool is_new = std::find(missing.begin(), missing.end(), value) == missing.end();
      if (is_new && behind.count(value.id) == 0) missing.push_back(value);
    }
  }
  if (missing.empty()) return;
  const Value gradient = awaited_gradient(begin, end);
  if (gradient && std::find(missing.begin(), missing.end(), gradient) == missing.end()) missing.push_back(gradient);
  std::vector<Hlo> before;
  for (const Value value : missing) before.push_back(values[value.id]);
  const auto after = writer.optimization_barrier(before);
  for (size_t i = 0; i < missing.size(); ++i) behind.emplace(missing[i].id, after[i]);
}

void RecomputationBarriers::lower(HloWriter& writer, size_t index, std::vector<Hlo>& values) {
  const Node& node = graph_.nodes()[index];
  if (!is_checkpoint_recomputation(node.provenance)) return lower_node(writer, graph_, node, values);
  const auto outside = outside_operands(index);
  auto& behind = behind_[node.provenance.region.str()];
  const auto is_missing = [&](Value value) { return behind.count(value.id) == 0; };
  if (std::any_of(outside.begin(), outside.end(), is_missing)) open_region(writer, index, values);
  // Only this node sees what is behind the barrier; other readers keep the values themselves.
  for (const Value value : outside) std::swap(values[value.id], behind.at(value.id));
  lower_node(writer, graph_, node, values);
  for (const Value value : outside) std::swap(values[value.id], behind.at(value.id));
}

}  // namespace diptych::detail
