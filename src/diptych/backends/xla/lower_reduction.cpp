// Sums, means and extrema over dimensions.
#include <algorithm>
#include <limits>
#include <numeric>

#include "diptych/backends/xla/lowering.h"

namespace diptych::detail {
namespace {

// The dimensions of an operand; all of them where none is named.
std::vector<int64_t> dims_of(const Lowering& node, size_t operand, int64_t rank) {
  auto dims = node.integers(operand);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& dim : dims) dim = Lowering::wrap(dim, rank);
  if (rank == 0) dims.clear();
  return dims;
}

Hlo sum_over(const Lowering& node, const Hlo& x, const std::vector<int64_t>& dims) {
  return node.writer().reduce("add", x, node.scalar_of(0, x.dtype), dims);
}

Hlo total(const Lowering& node, size_t dims) {
  const Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  return node.writer().reshape(sum_over(node, x, dims_of(node, dims, x.dim())), node.sizes());
}
constexpr size_t kNoDims = 99;
std::vector<Hlo> sum_all(const Lowering& node) { return {node.writer().convert(total(node, kNoDims), node.dtype())}; }
std::vector<Hlo> sum_dims(const Lowering& node) { return {node.writer().convert(total(node, 1), node.dtype())}; }

std::vector<Hlo> mean_over(const Lowering& node, size_t dims) {
  const Hlo x = node.tensor(0);
  int64_t count = 1;
  for (const int64_t dim : dims_of(node, dims, x.dim())) count *= x.sizes[dim];
  const Hlo sum = total(node, dims);
  const Hlo mean = node.writer().binary("divide", sum, node.filled(static_cast<double>(count), sum));
  return {node.writer().convert(mean, node.dtype())};
}
std::vector<Hlo> mean_all(const Lowering& node) { return mean_over(node, kNoDims); }
std::vector<Hlo> mean_dims(const Lowering& node) { return mean_over(node, 1); }

constexpr LoweringRow kReductionRows[] = {
    {"aten.sum", sum_all},
    {"aten.sum.dim_IntList", sum_dims},
    {"aten.mean", mean_all},
    {"aten.mean.dim", mean_dims},
};

}  // namespace

std::span<const LoweringRow> reduction_lowerings() { return kReductionRows; }

}  // namespace diptych::detail
