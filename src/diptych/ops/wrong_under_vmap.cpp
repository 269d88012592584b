#include "diptych/ops/wrong_under_vmap.h"

#include <algorithm>

namespace diptych::detail {

bool has_wrong_gradient_under_vmap(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    const auto is_wrong = [](const auto& body) { return has_wrong_gradient_under_vmap(*body); };
    return (!node.op.is_hop() && node.op.name() == "aten.select_scatter") ||
           std::any_of(node.subgraphs.begin(), node.subgraphs.end(), is_wrong);
  });
}

}  // namespace diptych::detail
