#include "diptych/ops/decompositions.h"

#include <string>
#include <unordered_map>

namespace diptych::detail {

const std::vector<Decomposition>& all_decompositions() {
  static const auto* const table = [] {
    auto* rows = new std::vector<Decomposition>;
    for (auto family :
         {detail::activation_decompositions, detail::activation_backward_decompositions, detail::linear_decompositions,
          detail::loss_decompositions, detail::normalization_decompositions, detail::random_decompositions,
          detail::softmax_decompositions}) {
      for (const auto& row : family()) rows->push_back(row);
    }
    return rows;
  }();
  return *table;
}

const Decomposition* find_decomposition(const Op& op) {
  if (op.is_hop()) return nullptr;
  static const auto* const index = [] {
    auto* rows = new std::unordered_map<std::string_view, const Decomposition*>;
    for (const auto& row : all_decompositions()) rows->emplace(row.op, &row);
    return rows;
  }();
  const auto found = index->find(op.name());
  return found == index->end() ? nullptr : found->second;
}

}  // namespace diptych::detail
