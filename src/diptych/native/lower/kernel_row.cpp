#include "diptych/native/lower/kernel_row.h"

#include <unordered_map>

#include "diptych/base/check.h"

namespace diptych::detail {
namespace {

constexpr std::span<const KernelRow> (*kTables[])() = {
    arithmetic_rows,
    division_rows,
    comparison_rows,
    math_rows,
    complex_rows,
    activation_rows,
    activation_gradient_rows,
    view_rows,
    reduction_rows,
    creation_rows,
    reading_rows,
    gather_rows,
    scatter_rows,
};

const std::unordered_map<std::string_view, const KernelRow*>& rows_by_op() {
  static const auto& rows = *new auto([] {
    std::unordered_map<std::string_view, const KernelRow*> found;
    for (const KernelRow* const row : all_kernel_rows()) {
      DIPTYCH_ASSERT(found.emplace(row->op, row).second, "operator {} has two rows", row->op);
    }
    return found;
  }());
  return rows;
}

}  // namespace

std::vector<const KernelRow*> all_kernel_rows() {
  std::vector<const KernelRow*> rows;
  for (const auto table : kTables) {
    for (const KernelRow& row : table()) rows.push_back(&row);
  }
  return rows;
}

const KernelRow* find_kernel_row(const Graph& graph, const Node& node) {
  const auto found = rows_by_op().find(node.op.name());
  if (found == rows_by_op().end()) return nullptr;
  const KernelRow* const row = found->second;
  return row->covers == nullptr || row->covers(NodeArguments(graph, node)) ? row : nullptr;
}

}  // namespace diptych::detail
