// Matrix products and convolutions.
#include "diptych/backends/xla/lowering.h"

namespace diptych::detail {
namespace {

// ATen's half products accumulate in f32 and round once.
Hlo product(const Lowering& node, size_t left, size_t right, const DotDimensions& dims) {
  const bool is_half = at::isReducedFloatingType(node.dtype());
  const Hlo result =
      node.writer().dot_general(node.tensor(left), node.tensor(right), dims, is_half ? at::kFloat : node.dtype());
  return result;
}

const DotDimensions kMatrices{{}, {}, {1}, {0}};
const DotDimensions kBatches{{0}, {0}, {2}, {1}};

std::vector<Hlo> mm(const Lowering& node) {
  return {node.writer().convert(product(node, 0, 1, kMatrices), node.dtype())};
}
std::vector<Hlo> bmm(const Lowering& node) {
  return {node.writer().convert(product(node, 0, 1, kBatches), node.dtype())};
}
std::vector<Hlo> mv(const Lowering& node) {
  return {node.writer().convert(product(node, 0, 1, kMatrices), node.dtype())};
}
std::vector<Hlo> dot(const Lowering& node) {
  return {node.writer().convert(product(node, 0, 1, {{}, {}, {0}, {0}}), node.dtype())};
}

// beta * bias + alpha * product; with beta 0 the bias is not read, not even its NaN.
std::vector<Hlo> addmm(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo result = product(node, 1, 2, kMatrices);
  if (!node.scalar(4, 1).equal(1)) result = writer.binary("multiply", result, node.filled(node.scalar(4), result));
  if (!node.scalar(3, 1).equal(0)) {
    Hlo bias = node.spread(0, result.dtype);
    if (!node.scalar(3, 1).equal(1)) bias = writer.binary("multiply", bias, node.filled(node.scalar(3), bias));
    result = writer.binary("add", result, bias);
  }
  return {writer.convert(result, node.dtype())};
}

constexpr LoweringRow kProductRows[] = {
    {"aten.mm", mm}, {"aten.bmm", bmm}, {"aten.mv", mv}, {"aten.dot", dot}, {"aten.addmm", addmm},
};

}  // namespace

std::span<const LoweringRow> product_lowerings() { return kProductRows; }

}  // namespace diptych::detail
