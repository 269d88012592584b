#include "diptych/interpreter/lifetimes.h"

#include <algorithm>

namespace diptych::detail {

Lifetimes find_lifetimes(const Graph& graph) {
  Lifetimes lifetimes;
  lifetimes.is_used.assign(graph.num_values(), false);
  lifetimes.dying.resize(graph.nodes().size());
  for (const Value value : graph.outputs()) {
    if (value) lifetimes.is_used[value.id] = true;
  }
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    auto& dying = lifetimes.dying[i];
    for_each_operand_value(graph.nodes()[i], [&](Value value) {
      if (lifetimes.is_used[value.id] || graph.info(value).kind == ValueInfo::Kind::kConstant) return;
      if (std::find(dying.begin(), dying.end(), value) == dying.end()) dying.push_back(value);
    });
    for_each_operand_value(graph.nodes()[i], [&](Value value) { lifetimes.is_used[value.id] = true; });
  }
  for (const Value value : graph.inputs()) {
    if (!lifetimes.is_used[value.id]) lifetimes.unused_inputs.push_back(value);
  }
  return lifetimes;
}

int32_t RegisterPool::take() {
  if (free_.empty()) return next_++;
  const int32_t index = free_.back();
  free_.pop_back();
  return index;
}

}  // namespace diptych::detail
