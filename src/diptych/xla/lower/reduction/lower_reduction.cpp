// Sums, means, variances, products, extrema and truth over dimensions.
#include <algorithm>

#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

// A reduction has the result's sizes, which may keep the reduced dimensions as ones, and its dtype.
Hlo finished(const Lowering& node, const Hlo& reduced, size_t index = 0) {
  return node.writer().convert(node.writer().reshape(reduced, node.sizes(index)), node.dtype(index));
}

// Operand 0 as reductions take it: first rounded to the result's dtype, then widened.
Hlo summand(const Lowering& node) {
  return node.writer().convert(node.converted(0, node.dtype()), Lowering::wide(node.dtype()));
}

Hlo reduce_sum(const Lowering& node, const Hlo& x, size_t dims) {
  // In truth values a sum is whether one is true.
  if (x.dtype == at::kBool) return extremum_over(node.writer(), "maximum", x, reduced_dims(node, dims, x.dim()));
  return sum_over(node.writer(), x, reduced_dims(node, dims, x.dim()));
}
template <size_t kDims>
std::vector<Hlo> sum(const Lowering& node) {
  return {finished(node, reduce_sum(node, summand(node), kDims))};
}

template <size_t kDims>
std::vector<Hlo> sum_without_nan(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = summand(node);
  if (!at::isFloatingType(x.dtype)) return {finished(node, reduce_sum(node, x, kDims))};
  const Hlo numbers = writer.select(where_nan(writer, x), node.filled(0, x), x);
  return {finished(node, reduce_sum(node, numbers, kDims))};
}

Hlo mean_over(HloWriter& writer, const Hlo& x, at::IntArrayRef dims) {
  const Hlo total = sum_over(writer, x, dims);
  return writer.binary("divide", total, constant_like(writer, static_cast<double>(count_over(x, dims)), total));
}
// ATen's mean of half numbers widens them first and rounds once.
template <size_t kDims>
std::vector<Hlo> mean(const Lowering& node) {
  const Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  return {finished(node, mean_over(node.writer(), x, reduced_dims(node, kDims, x.dim())))};
}

template <size_t kDims>
std::vector<Hlo> product_over(const Lowering& node) {
  const Hlo x = summand(node);
  const std::string_view operation = x.dtype == at::kBool ? "and" : "multiply";
  return {finished(node,
                   node.writer().reduce(operation, x, node.scalar_of(1, x.dtype), reduced_dims(node, kDims, x.dim())))};
}

Hlo reduce_extremum(const Lowering& node, std::string_view operation, size_t dims, size_t index) {
  const Hlo x = node.tensor(0);
  return finished(node, extremum_over(node.writer(), operation, x, reduced_dims(node, dims, x.dim())), index);
}
template <const char* kOperation, size_t kDims>
std::vector<Hlo> reduced_extremum(const Lowering& node) {
  return {reduce_extremum(node, kOperation, kDims, 0)};
}
// Of nothing there is no largest element: eager refuses it.
template <size_t kDims>
bool has_elements(const Lowering& node) {
  const TensorMeta* const x = operand_meta(node, 0);
  if (x == nullptr) return false;
  const auto sizes = x->size_hints();
  const auto dims = reduced_dims(node, kDims, static_cast<int64_t>(sizes.size()));
  return std::none_of(dims.begin(), dims.end(), [&](int64_t dim) { return sizes[dim] == 0; });
}
std::vector<Hlo> both_extrema(const Lowering& node) {
  return {reduce_extremum(node, "minimum", 1, 0), reduce_extremum(node, "maximum", 1, 1)};
}

// Truth of bytes is a byte.
Hlo reduce_truth(const Lowering& node, std::string_view operation, at::IntArrayRef dims) {
  HloWriter& writer = node.writer();
  return finished(node, extremum_over(writer, operation, where_nonzero(writer, node.tensor(0)), dims));
}
template <const char* kOperation, size_t kDims>
std::vector<Hlo> truth(const Lowering& node) {
  return {reduce_truth(node, kOperation, reduced_dims(node, kDims, node.tensor(0).dim()))};
}
// Unlike other reductions, this one takes an empty list to mean no dimension; None means all.
template <const char* kOperation>
std::vector<Hlo> truth_over_list(const Lowering& node) {
  const bool is_elementwise = node.is_given(1) && node.integers(1).empty();
  if (is_elementwise) return {reduce_truth(node, kOperation, {})};
  return truth<kOperation, 1>(node);
}

template <size_t kDims>
std::vector<Hlo> count_nonzero(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo counted = writer.convert(where_nonzero(writer, node.tensor(0)), at::kLong);
  return {finished(node, sum_over(writer, counted, reduced_dims(node, kDims, counted.dim())))};
}

struct Moments {
  Hlo variance, mean;
};
// ATen's kernels keep moments in f64 whatever the dtype, so that the variance of equal numbers is zero.
Moments moments_of(const Lowering& node, size_t dims, double correction) {
  HloWriter& writer = node.writer();
  const Hlo x = node.converted(0, at::kDouble);
  const auto over = reduced_dims(node, dims, x.dim());
  const Hlo mean = mean_over(writer, x, over);
  const Hlo centered = writer.binary("subtract", x, spread_back(writer, mean, x, over));
  const Hlo squares = sum_over(writer, writer.binary("multiply", centered, centered), over);
  const double count = std::max(0.0, static_cast<double>(count_over(x, over)) - correction);
  return {writer.binary("divide", squares, constant_like(writer, count, squares)), mean};
}

std::vector<Hlo> variance_results(const Lowering& node, Moments moments, bool takes_root) {
  if (takes_root) moments.variance = node.writer().unary("sqrt", moments.variance);
  std::vector<Hlo> results{finished(node, moments.variance)};
  if (node.node().outputs.size() > 1) results.push_back(finished(node, moments.mean, 1));
  return results;
}
template <bool kTakesRoot>
std::vector<Hlo> variance(const Lowering& node) {
  return variance_results(node, moments_of(node, 1, node.number(2, 1)), kTakesRoot);
}
template <bool kTakesRoot, size_t kDims, size_t kUnbiased>
std::vector<Hlo> variance_by_flag(const Lowering& node) {
  return variance_results(node, moments_of(node, kDims, node.flag(kUnbiased, true) ? 1 : 0), kTakesRoot);
}
bool has_real_operand(const Lowering& node) {
  return !at::isComplexType(node.graph().meta(std::get<Value>(node.node().operands[0])).dtype);
}

// Where the largest number is infinite it is no shift.
std::vector<Hlo> logsumexp(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.converted(0, Lowering::wide(node.dtype()));
  const auto dims = reduced_dims(node, 1, x.dim());
  const Hlo largest = extremum_over(writer, "maximum", x, dims);
  const Hlo size = writer.unary("abs", largest);
  const Hlo is_infinite = writer.compare("EQ", size, node.filled(highest_of(x.dtype), size));
  const Hlo shift = writer.select(is_infinite, node.filled(0, largest), largest);
  const Hlo shifted = writer.binary("subtract", x, spread_back(writer, shift, x, dims));
  const Hlo total = sum_over(writer, writer.unary("exponential", shifted), dims);
  return {finished(node, writer.binary("add", writer.unary("log", total), shift))};
}

std::vector<Hlo> trace(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = summand(node);
  const Hlo is_diagonal = writer.compare("EQ", writer.iota(at::kLong, x.sizes, 0), writer.iota(at::kLong, x.sizes, 1));
  return {finished(node, sum_over(writer, writer.select(is_diagonal, x, node.filled(0, x)), {{0, 1}}))};
}

constexpr char kLargest[] = "maximum", kSmallest[] = "minimum";

constexpr LoweringRow kReductionRows[] = {
    {"aten.sum", sum<kNoDims>},
    {"aten.sum.dim_IntList", sum<1>},
    {"aten.nansum", sum_without_nan<1>},
    {"aten.mean", mean<kNoDims>},
    {"aten.mean.dim", mean<1>},
    {"aten.prod", product_over<kNoDims>},
    {"aten.prod.dim_int", product_over<1>},
    {"aten.amax", reduced_extremum<kLargest, 1>, has_elements<1>},
    {"aten.amin", reduced_extremum<kSmallest, 1>, has_elements<1>},
    {"aten.max", reduced_extremum<kLargest, kNoDims>, has_elements<kNoDims>},
    {"aten.min", reduced_extremum<kSmallest, kNoDims>, has_elements<kNoDims>},
    {"aten.aminmax", both_extrema, has_elements<1>},
    {"aten.any", truth<kLargest, kNoDims>},
    {"aten.any.dim", truth<kLargest, 1>},
    {"aten.any.dims", truth_over_list<kLargest>},
    {"aten.all", truth<kSmallest, kNoDims>},
    {"aten.all.dim", truth<kSmallest, 1>},
    {"aten.all.dims", truth_over_list<kSmallest>},
    {"aten.count_nonzero", count_nonzero<1>},
    {"aten.count_nonzero.dim_IntList", count_nonzero<1>},
    {"aten.var.correction", variance<false>, has_real_operand},
    {"aten.std.correction", variance<true>, has_real_operand},
    {"aten.var_mean.correction", variance<false>, has_real_operand},
    {"aten.std_mean.correction", variance<true>, has_real_operand},
    {"aten.var", variance_by_flag<false, kNoDims, 1>, has_real_operand},
    {"aten.std", variance_by_flag<true, kNoDims, 1>, has_real_operand},
    {"aten.var.dim", variance_by_flag<false, 1, 2>, has_real_operand},
    {"aten.std.dim", variance_by_flag<true, 1, 2>, has_real_operand},
    {"aten.var_mean", variance_by_flag<false, kNoDims, 1>, has_real_operand},
    {"aten.std_mean", variance_by_flag<true, kNoDims, 1>, has_real_operand},
    {"aten.var_mean.dim", variance_by_flag<false, 1, 2>, has_real_operand},
    {"aten.std_mean.dim", variance_by_flag<true, 1, 2>, has_real_operand},
    {"aten.logsumexp", logsumexp, has_real_operand},
    {"aten.trace", trace},
};

}  // namespace

std::span<const LoweringRow> reduction_lowerings() { return kReductionRows; }

}  // namespace diptych::detail
