// Norms of vectors, distances, and tensors scaled by their norms.
#include <ATen/ExpandUtils.h>

#include <algorithm>

#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

Hlo magnitudes_of(HloWriter& writer, const Hlo& x) {
  return at::isComplexType(x.dtype) ? writer.complex_part("abs", x) : writer.unary("abs", x);
}

// Of one element eager takes the magnitude, which does not overflow.
Hlo norm_as_eager(HloWriter& writer, const Hlo& x, double order, at::IntArrayRef dims) {
  const bool is_one = std::all_of(dims.begin(), dims.end(), [&](int64_t dim) { return x.sizes[dim] == 1; });
  return norm_over(writer, magnitudes_of(writer, x), is_one && order != 0 ? 1 : order, dims);
}

// The norm of an operand that is first converted to the dtype that is asked for.
Hlo norm_of(const Lowering& node, const Hlo& x, double order, at::IntArrayRef dims) {
  HloWriter& writer = node.writer();
  const Hlo wide = writer.convert(x, Lowering::wide(x.dtype));
  const Hlo norm = norm_as_eager(writer, wide, order, dims);
  return writer.convert(writer.reshape(norm, node.sizes()), node.dtype());
}

struct NormOperands {
  size_t order, dims, dtype;
};
std::vector<Hlo> norm_by(const Lowering& node, const NormOperands& at) {
  Hlo x = node.tensor(0);
  if (node.is_given(at.dtype)) x = node.writer().convert(x, static_cast<at::ScalarType>(node.integer(at.dtype)));
  return {norm_of(node, x, node.number(at.order, 2), reduced_dims(node, at.dims, x.dim()))};
}
std::vector<Hlo> vector_norm(const Lowering& node) { return norm_by(node, {1, 2, 4}); }
std::vector<Hlo> norm_all(const Lowering& node) { return norm_by(node, {1, kNoDims, kNoDims}); }
std::vector<Hlo> norm_dims(const Lowering& node) { return norm_by(node, {1, 2, kNoDims}); }
std::vector<Hlo> norm_all_as(const Lowering& node) { return norm_by(node, {1, kNoDims, 2}); }
std::vector<Hlo> norm_dims_as(const Lowering& node) { return norm_by(node, {1, 2, 4}); }
// In half numbers a complex norm has no wide dtype here.
bool has_norm(const Lowering& node) {
  const auto dtype = node.graph().meta(std::get<Value>(node.node().operands[0])).dtype;
  return at::isFloatingType(dtype) || dtype == at::kComplexFloat || dtype == at::kComplexDouble;
}

std::vector<Hlo> distance(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto dtype = node.common_dtype({0, 1});
  const auto sizes = at::infer_size(node.tensor(0).sizes, node.tensor(1).sizes);
  const auto spread = [&](size_t index) { return writer.broadcast_to(node.converted(index, dtype), sizes); };
  const Hlo difference = writer.binary("subtract", spread(0), spread(1));
  return {norm_of(node, difference, node.number(2, 2), reduced_dims(node, kNoDims, difference.dim()))};
}

// Slices along a dimension whose norm is over the bound are scaled down to it.
std::vector<Hlo> renorm(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  const int64_t kept = Lowering::wrap(node.integer(2), x.dim());
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    if (dim != kept) dims.push_back(dim);
  }
  const Hlo norm = norm_as_eager(writer, x, node.number(1), dims);
  const Hlo bound = node.filled(node.scalar(3), norm);
  const Hlo factor = writer.binary("divide", bound, writer.binary("add", norm, node.filled(1e-7, norm)));
  const Hlo scale = writer.select(writer.compare("GT", norm, bound), factor, node.filled(1, norm));
  return {writer.convert(writer.binary("multiply", x, spread_back(writer, scale, x, dims)), node.dtype())};
}
bool is_real_norm(const Lowering& node) { return at::isFloatingType(node.dtype()); }

// v scaled so that its slices along the first or the last dimension have norms g.
std::vector<Hlo> weight_norm(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo v = node.converted(0, Lowering::wide(node.dtype()));
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < v.dim(); ++dim) {
    if (dim != node.integer(2)) dims.push_back(dim);
  }
  const Hlo norm = norm_over(writer, magnitudes_of(writer, v), 2, dims);
  const Hlo g = writer.reshape(node.converted(1, v.dtype), norm.sizes);
  const Hlo scaled = writer.binary("multiply", v, spread_back(writer, writer.binary("divide", g, norm), v, dims));
  return {writer.convert(scaled, node.dtype()), writer.convert(writer.reshape(norm, node.sizes(1)), node.dtype(1))};
}

constexpr LoweringRow kNormRows[] = {
    {"aten.linalg_vector_norm", vector_norm, has_norm},
    {"aten.norm.Scalar", norm_all, has_norm},
    {"aten.norm.ScalarOpt_dim", norm_dims, has_norm},
    {"aten.norm.ScalarOpt_dtype", norm_all_as, has_norm},
    {"aten.norm.ScalarOpt_dim_dtype", norm_dims_as, has_norm},
    {"aten.dist", distance, has_norm},
    {"aten.renorm", renorm, is_real_norm},
    {"aten._weight_norm_interface", weight_norm, is_real_norm},
};

}  // namespace

std::span<const LoweringRow> norm_lowerings() { return kNormRows; }

}  // namespace diptych::detail
