// Products of matrices and vectors.
#include <algorithm>
#include <numeric>

#include "diptych/xla/hlo/lowering.h"

namespace diptych::detail {
namespace {

// ATen's products of half types accumulate in f32 and round once, after what is added to them.
Hlo product(const Lowering& node, size_t left, size_t right, const DotDimensions& dims) {
  return node.writer().dot_general(node.tensor(left), node.tensor(right), dims, Lowering::wide(node.dtype()));
}

const DotDimensions kMatrices{{}, {}, {1}, {0}};
const DotDimensions kBatches{{0}, {0}, {2}, {1}};
const DotDimensions kVectors{{}, {}, {0}, {0}};
const DotDimensions kSummedBatches{{}, {}, {0, 2}, {0, 1}};

template <const DotDimensions& kDims>
std::vector<Hlo> plain_product(const Lowering& node) {
  return {node.writer().convert(product(node, 0, 1, kDims), node.dtype())};
}

Hlo times(const Lowering& node, const Hlo& x, const at::Scalar& factor) {
  return factor.equal(1) ? x : node.writer().binary("multiply", x, node.filled(factor, x));
}

// beta * bias + alpha * product; with beta 0 the bias is not read, not even its NaN.
std::vector<Hlo> add_bias(const Lowering& node, const Hlo& product) {
  HloWriter& writer = node.writer();
  Hlo result = times(node, product, node.scalar(4, 1));
  const auto beta = node.scalar(3, 1);
  if (!beta.equal(0)) result = writer.binary("add", times(node, node.spread(0, result.dtype), beta), result);
  return {writer.convert(result, node.dtype())};
}

template <const DotDimensions& kDims>
std::vector<Hlo> biased_product(const Lowering& node) {
  return add_bias(node, product(node, 1, 2, kDims));
}

Hlo outer_of(const Lowering& node, size_t left, size_t right, at::ScalarType dtype) {
  HloWriter& writer = node.writer();
  const Hlo rows = writer.broadcast(node.converted(left, dtype), node.sizes(), {0});
  return writer.binary(dtype == at::kBool ? "and" : "multiply", rows, node.spread(right, dtype));
}
std::vector<Hlo> outer(const Lowering& node) { return {outer_of(node, 0, 1, node.dtype())}; }
std::vector<Hlo> add_outer(const Lowering& node) {
  const auto computed = Lowering::wide(node.dtype());
  return add_bias(node, outer_of(node, 1, 2, computed));
}
// Of Booleans, eager's addr is made of "and" and "or".
bool is_number_result(const Lowering& node) { return node.dtype() != at::kBool; }

// The first vector of a complex vdot is conjugated.
bool is_real_result(const Lowering& node) { return !at::isComplexType(node.dtype()); }

std::vector<Hlo> linear(const Lowering& node) {
  HloWriter& writer = node.writer();
  const int64_t last = node.tensor(0).dim() - 1;
  Hlo result = product(node, 0, 1, {{}, {}, {last}, {1}});
  if (node.has_tensor(2)) result = writer.binary("add", result, node.spread(2, result.dtype));
  return {writer.convert(result, node.dtype())};
}
int64_t rank_of(const Lowering& node, size_t operand) {
  const auto& value = std::get<Value>(node.node().operands[operand]);
  return static_cast<int64_t>(node.graph().meta(value).sizes.size());
}
bool has_weight_matrix(const Lowering& node) { return rank_of(node, 1) == 2 && rank_of(node, 0) > 0; }

// A tensor with dimensions of size 1 at `places` of the result of that rank.
Hlo with_ones(const Lowering& node, const Hlo& x, const std::vector<int64_t>& places) {
  std::vector<int64_t> sizes(x.sizes.size() + places.size(), 0);
  for (const int64_t place : places) sizes[Lowering::wrap(place, static_cast<int64_t>(sizes.size()))] = 1;
  size_t next = 0;
  for (int64_t& size : sizes) {
    if (size == 0) size = x.sizes[next++];
  }
  return node.writer().reshape(x, sizes);
}

// The sum over some dimensions of a product of three tensors, which get new dimensions first.
std::vector<Hlo> trilinear(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  std::vector<Hlo> factors;
  for (size_t i = 0; i < 3; ++i) {
    const Hlo x = node.converted(i, computed);
    factors.push_back(with_ones(node, x, node.integers(3 + i)));
  }
  auto sizes = factors[0].sizes;
  for (const Hlo& factor : factors) {
    for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = sizes[i] == 1 ? factor.sizes[i] : sizes[i];
  }
  auto spread_over = [&](const Hlo& factor) {
    // broadcast_in_dim stretches dimensions of size 1.
    std::vector<int64_t> dims(sizes.size());
    std::iota(dims.begin(), dims.end(), 0);
    return factor.sizes == sizes ? factor : writer.broadcast(factor, sizes, dims);
  };
  Hlo result = writer.binary("multiply", spread_over(factors[0]), spread_over(factors[1]));
  result = writer.binary("multiply", result, spread_over(factors[2]));
  auto summed = node.integers(6);
  for (int64_t& dim : summed) dim = Lowering::wrap(dim, static_cast<int64_t>(sizes.size()));
  std::sort(summed.begin(), summed.end());
  result = writer.reduce("add", result, node.scalar_of(0, computed), summed);
  return {writer.convert(result, node.dtype())};
}

constexpr LoweringRow kProductRows[] = {
    {"aten.mm", plain_product<kMatrices>, is_number_result},
    {"aten.bmm", plain_product<kBatches>, is_number_result},
    {"aten.mv", plain_product<kMatrices>, is_number_result},
    {"aten.dot", plain_product<kVectors>, is_number_result},
    {"aten.vdot", plain_product<kVectors>, is_real_result},
    {"aten.addmm", biased_product<kMatrices>, is_number_result},
    {"aten.baddbmm", biased_product<kBatches>, is_number_result},
    {"aten.addbmm", biased_product<kSummedBatches>, is_number_result},
    {"aten.addmv", biased_product<kMatrices>, is_number_result},
    {"aten.addr", add_outer, is_number_result},
    {"aten.outer", outer},
    {"aten.ger", outer},
    {"aten.linear", linear, has_weight_matrix},
    {"aten._trilinear", trilinear},
};

}  // namespace

std::span<const LoweringRow> product_lowerings() { return kProductRows; }

}  // namespace diptych::detail
