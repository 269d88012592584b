// The table of rows: what each ATen operator is in a kernel.
#pragma once
#include <span>
#include <string_view>

#include "diptych/native/lower/node_arguments.h"
#include "diptych/native/lower/node_lowering.h"
#include "diptych/native/lower/node_space.h"

namespace diptych::detail {

/// A row: one overload.
struct KernelRow {
  std::string_view op;            ///< "aten.add.Tensor"
  bool (*place)(NodeSpace&);      ///< which axes its results run along; false if they do not fit into the group
  Terms (*lower)(NodeLowering&);  ///< one term per output, in the output's dtype or one that converts to it
  bool (*covers)(const NodeArguments&) = nullptr;  ///< by operands and types alone; null if the row covers all nodes
  /// Which operands may follow from dynamic sizes, one bit each: those that its rules do not read, since results have
  /// the sizes, and numbers that they read by NodeLowering::operand() and its like alone.
  uint32_t sizes = 0;
  bool checks = false;         ///< whether its rule calls NodeLowering::check(): a reduction over all points
  bool scatters = false;       ///< whether it is a sum as Note [Scattered sums] in scattered_sums.h describes it
  bool takes_complex = false;  ///< whether it holds for complex operands, numbers and results, too
};

/// The row, which holds for complex numbers as well.
constexpr KernelRow also_complex(KernelRow row) {
  row.takes_complex = true;
  return row;
}

/// The row of a node; null if there is none, or it does not cover it. Sizes are not looked at.
const KernelRow* find_kernel_row(const Graph& graph, const Node& node);

/// The tables, one per family of operators.
std::span<const KernelRow> arithmetic_rows();
std::span<const KernelRow> division_rows();
std::span<const KernelRow> comparison_rows();
std::span<const KernelRow> math_rows();
std::span<const KernelRow> complex_rows();
std::span<const KernelRow> activation_rows();
std::span<const KernelRow> activation_gradient_rows();
std::span<const KernelRow> view_rows();
std::span<const KernelRow> reduction_rows();
std::span<const KernelRow> creation_rows();
std::span<const KernelRow> reading_rows();
std::span<const KernelRow> gather_rows();
std::span<const KernelRow> scatter_rows();

/// Every row of every table.
std::vector<const KernelRow*> all_kernel_rows();

}  // namespace diptych::detail
