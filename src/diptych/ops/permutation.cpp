#include "diptych/ops/permutation.h"

#include <algorithm>
#include <numeric>

namespace diptych::detail {
namespace {

using Order = std::vector<int64_t>;

int64_t from_front(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }

const c10::IValue& constant(const Node& node, size_t operand) { return std::get<c10::IValue>(node.operands[operand]); }

void permute(const Node& node, Order& order) {
  const auto dims = constant(node, 1).toIntVector();
  const auto rank = static_cast<int64_t>(order.size());
  std::transform(dims.begin(), dims.end(), order.begin(), [&](int64_t dim) { return from_front(dim, rank); });
}

void transpose(const Node& node, Order& order) {
  const auto rank = static_cast<int64_t>(order.size());
  if (rank == 0) return;
  std::swap(order[from_front(constant(node, 1).toInt(), rank)], order[from_front(constant(node, 2).toInt(), rank)]);
}

void reverse(const Node&, Order& order) { std::reverse(order.begin(), order.end()); }

struct PermutationRow {
  Op op;
  void (*apply)(const Node& node, Order& order);
};

const std::vector<PermutationRow>& permutation_rows() {
  static const auto& rows = *new std::vector<PermutationRow>{
      {Op::find("aten.permute"), permute}, {Op::find("aten.transpose.int"), transpose}, {Op::find("aten.t"), reverse}};
  return rows;
}

}  // namespace

std::optional<std::vector<int64_t>> permutation_of(const Node& node, int64_t rank) {
  const auto& rows = permutation_rows();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const PermutationRow& r) { return r.op == node.op; });
  if (row == rows.end()) return std::nullopt;
  Order order(rank);
  std::iota(order.begin(), order.end(), 0);
  row->apply(node, order);
  return order;
}

}  // namespace diptych::detail
