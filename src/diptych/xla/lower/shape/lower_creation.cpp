// Tensors made from numbers alone: constants, ranges, diagonals.
#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

std::vector<Hlo> fill(const Lowering& node, const at::Scalar& value) {
  return {node.writer().constant(value, node.dtype(), node.sizes())};
}
template <size_t kOperand>
std::vector<Hlo> full(const Lowering& node) {
  return fill(node, node.scalar(kOperand));
}
// What eager leaves unset is zero.
std::vector<Hlo> zeros(const Lowering& node) { return fill(node, 0); }
std::vector<Hlo> ones(const Lowering& node) { return fill(node, 1); }

// ATen computes ranges of floating-point numbers in double, and those of integers in int64.
std::vector<Hlo> range_of(const Lowering& node, const at::Scalar& start, const at::Scalar& step) {
  HloWriter& writer = node.writer();
  const auto computed = at::isFloatingType(node.dtype()) ? at::kDouble : at::kLong;
  const Hlo position = writer.iota(computed, node.sizes(), 0);
  const Hlo scaled = writer.binary("multiply", position, node.filled(step, position));
  return {writer.convert(writer.binary("add", scaled, node.filled(start, scaled)), node.dtype())};
}
std::vector<Hlo> arange(const Lowering& node) { return range_of(node, 0, 1); }
std::vector<Hlo> arange_from(const Lowering& node) { return range_of(node, node.scalar(0), 1); }
std::vector<Hlo> arange_step(const Lowering& node) { return range_of(node, node.scalar(0), node.scalar(2, 1)); }
bool is_real_range(const Lowering& node) { return !at::isComplexType(node.dtype()) && node.dtype() != at::kBool; }

// The step that eager takes between numbers, in the precision that it takes it in.
Hlo step_between(const Lowering& node, const Hlo& start, const Hlo& end) {
  HloWriter& writer = node.writer();
  const auto count = static_cast<double>(start.sizes[0] - 1);
  if (!node.has_tensor(0) && !node.has_tensor(1)) {
    const double from = node.number(0), to = node.number(1);
    const bool is_double = node.dtype() == at::kDouble;
    return node.filled(is_double ? (to - from) / count
                                 : (static_cast<float>(to) - static_cast<float>(from)) / static_cast<float>(count),
                       start);
  }
  // The compiler would turn division by a constant into a product.
  const Hlo divisor = writer.optimization_barrier({node.filled(count, start)})[0];
  return writer.binary("divide", writer.binary("subtract", end, start), divisor);
}

// From the start in the first half, from the end in the second, as ATen does.
Hlo even_steps(const Lowering& node) {
  HloWriter& writer = node.writer();
  const int64_t steps = node.sizes()[0];
  const Hlo start = node.spread(0, node.dtype()), end = node.spread(1, node.dtype());
  if (steps == 1) return start;
  const Hlo position = writer.iota(node.dtype(), {steps}, 0), step = step_between(node, start, end);
  const auto filled = [&](int64_t number) { return node.filled(static_cast<double>(number), position); };
  const Hlo forward = writer.binary("add", start, writer.binary("multiply", step, position));
  const Hlo left = writer.binary("subtract", filled(steps - 1), position);
  const Hlo backward = writer.binary("subtract", end, writer.binary("multiply", step, left));
  return writer.select(writer.compare("LT", position, filled(steps / 2)), forward, backward);
}
std::vector<Hlo> linspace(const Lowering& node) { return {even_steps(node)}; }
std::vector<Hlo> logspace(const Lowering& node) {
  const Hlo exponent = even_steps(node);
  return {node.writer().binary("power", node.filled(node.number(3, 10), exponent), exponent)};
}
// Half types and integers are rounded at steps of their own.
bool is_plain_linspace(const Lowering& node) { return node.dtype() == at::kFloat || node.dtype() == at::kDouble; }

std::vector<Hlo> eye(const Lowering& node) { return {identity_matrix(node.writer(), node.dtype(), node.sizes())}; }

// The rows, then the columns, of a triangle's elements, as a table in the program.
template <bool kIsLower>
std::vector<Hlo> triangle_indices(const Lowering& node) {
  const int64_t rows = node.integer(0), columns = node.integer(1), offset = node.integer(2);
  std::vector<int64_t> list, second;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      if (kIsLower ? j - i > offset : j - i < offset) continue;
      list.push_back(i);
      second.push_back(j);
    }
  }
  list.insert(list.end(), second.begin(), second.end());
  return {node.writer().reshape(node.writer().constant_list(list, node.dtype()), node.sizes())};
}
bool is_small_table(const Lowering& node) { return node.result().numel() <= 4096; }

constexpr LoweringRow kCreationRows[] = {
    {"aten.full", full<1>},
    {"aten.full_like", full<1>},
    {"aten.new_full", full<2>},
    {"aten.scalar_tensor", full<0>},
    {"aten.zeros", zeros},
    {"aten.zeros_like", zeros},
    {"aten.new_zeros", zeros},
    {"aten.zero", zeros},
    {"aten.ones", ones},
    {"aten.ones_like", ones},
    {"aten.new_ones", ones},
    {"aten.empty.memory_format", zeros},
    {"aten.empty_strided", zeros},
    {"aten.empty_like", zeros},
    {"aten.empty_permuted", zeros},
    {"aten.new_empty", zeros},
    {"aten.new_empty_strided", zeros},
    {"aten.arange", arange, is_real_range},
    {"aten.arange.start", arange_from, is_real_range},
    {"aten.arange.start_step", arange_step, is_real_range},
    {"aten.linspace", linspace, is_plain_linspace},
    {"aten.linspace.Tensor_Tensor", linspace, is_plain_linspace},
    {"aten.linspace.Tensor_Scalar", linspace, is_plain_linspace},
    {"aten.linspace.Scalar_Tensor", linspace, is_plain_linspace},
    {"aten.logspace", logspace, is_plain_linspace},
    {"aten.logspace.Tensor_Tensor", logspace, is_plain_linspace},
    {"aten.logspace.Tensor_Scalar", logspace, is_plain_linspace},
    {"aten.logspace.Scalar_Tensor", logspace, is_plain_linspace},
    {"aten.eye", eye},
    {"aten.eye.m", eye},
    {"aten.tril_indices", triangle_indices<true>, is_small_table},
    {"aten.triu_indices", triangle_indices<false>, is_small_table},
};

}  // namespace

std::span<const LoweringRow> creation_lowerings() { return kCreationRows; }

}  // namespace diptych::detail
