#include "diptych/native/plan/block_values.h"

#include "diptych/base/check.h"
#include "diptych/interpreter/program.h"
#include "diptych/native/fusion/single_node.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

// Whether a value that lies in its root's memory from the first element to the last is all of the root.
bool is_whole(const TensorMeta& root, const TensorMeta& value) {
  return place_of(root, 0).is_dense() && place_of(value, 0).is_dense() && root.nbytes() == value.nbytes();
}

}  // namespace

bool is_planned_view(const Graph& graph, const Node& node) {
  if (node.op.is_hop() || !has_tag(node.op, Tag::kSharesStorage) || has_tag(node.op, Tag::kReinterprets)) return false;
  const auto* base = std::get_if<Value>(&node.operands[0]);
  return base != nullptr && *base && graph.info(*base).kind != ValueInfo::Kind::kConstant;
}

std::vector<Place> view_places(const Graph& graph, const Node& node, const Place& base) {
  const at::Tensor window = make_window(base);
  std::vector<Place> places;
  for (const at::Tensor& view : Program(graph_of_one(graph, node)).run({window})) {
    DIPTYCH_ASSERT(view.is_alias_of(window) && view.scalar_type() == base.dtype, "{} gave no view", node.op.name());
    const int64_t offset = base.offset + view.storage_offset() * base.itemsize();
    places.push_back({base.region, offset, base.dtype, view.sizes().vec(), view.strides().vec()});
  }
  return places;
}

BlockValues::BlockValues(const Graph& graph, const std::vector<BlockResult>& results)
    : roots(graph.num_values()), outputs(graph.num_values(), -1), dying(graph.nodes().size()) {
  for (size_t i = 0; i < roots.size(); ++i) roots[i] = Value{static_cast<int32_t>(i)};
  std::vector<int32_t> last_use(graph.num_values(), -1);
  for (size_t index = 0; index < graph.nodes().size(); ++index) {
    const Node& node = graph.nodes()[index];
    for_each_operand_value(node, [&](Value value) { last_use[roots[value.id].id] = static_cast<int32_t>(index); });
    for (const Value output : node.outputs) {
      if (!output) continue;
      last_use[output.id] = static_cast<int32_t>(index);
      if (is_planned_view(graph, node)) roots[output.id] = roots[std::get<Value>(node.operands[0]).id];
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    const Value root = roots[results[i].value.id];
    last_use[root.id] = -1;  // lives on
    const Place place = place_of(graph.meta(results[i].value), 0);
    const bool fits = graph.info(root).kind == ValueInfo::Kind::kNode && outputs[root.id] < 0 &&
                      place.has_strides(results[i].meta.stride_hints()) &&
                      is_whole(graph.meta(root), graph.meta(results[i].value));
    if (fits) outputs[root.id] = static_cast<int32_t>(i);
  }
  for (size_t i = 0; i < roots.size(); ++i) {
    const Value value{static_cast<int32_t>(i)};
    if (roots[i] == value && last_use[i] >= 0 && graph.info(value).kind == ValueInfo::Kind::kNode) {
      dying[last_use[i]].push_back(value);
    }
  }
}

}  // namespace diptych::detail
