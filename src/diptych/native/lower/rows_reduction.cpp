// Reductions. Sums of floats accumulate in the dtype in which kernels compute, those of integers in i64.
#include <algorithm>
#include <cmath>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

// The operand reduced in its own dtype.
Term reduced(const NodeLowering& node, std::string_view reduction, const Term& x) {
  return x.reduce(reduction, node.reduced(), x.dtype());
}

template <const char* kReduction>
Terms accumulate(NodeLowering& node) {
  return {reduced(node, kReduction, node.operand(0))};
}
Term mean_of(const NodeLowering& node, const Term& x) {
  const Term sum = reduced(node, "sum", x);
  return sum / node.reduced_count(x.dtype());
}
Terms mean(NodeLowering& node) { return {mean_of(node, node.operand(0))}; }

Term wide_operand(const NodeLowering& node) {
  const Term x = node.own(0);
  return x.to(NodeLowering::wide(x.dtype()));
}
template <const char* kReduction>
Terms extreme(NodeLowering& node) {
  return {reduced(node, kReduction, wide_operand(node))};
}
Terms extremes(NodeLowering& node) {
  const Term x = wide_operand(node);
  return {reduced(node, "min", x), reduced(node, "max", x)};
}

Term position_of_extreme(const NodeLowering& node, std::string_view reduction, const Term& x) {
  if (node.reduced().empty()) return node.constant(0, at::kLong);
  return x.reduce(reduction, node.reduced(), at::kLong);
}
template <const char* kReduction>
Terms position(NodeLowering& node) {
  if (!node.reduces_in_order()) return {};
  return {position_of_extreme(node, kReduction, wide_operand(node))};
}
template <const char* kReduction, const char* kPosition>
Terms extreme_and_position(NodeLowering& node) {
  if (!node.reduces_in_order()) return {};
  const Term x = wide_operand(node);
  return {reduced(node, kReduction, x), position_of_extreme(node, kPosition, x)};
}

template <const char* kReduction>
Terms truth(NodeLowering& node) {
  return {reduced(node, kReduction, node.own(0).to(at::kBool))};
}
Terms count_nonzero(NodeLowering& node) { return {reduced(node, "sum", node.own(0).to(at::kBool).to(at::kLong))}; }

// ATen computes in f64, so that is done here too: a sum of squares in f32 would lose digits that eager has.
struct Statistics {
  Term mean, variance;

  explicit Statistics(const NodeLowering& node) : mean(mean_of(node, node.own(0).to(at::kDouble))), variance(mean) {
    const Term difference = node.own(0).to(at::kDouble) - mean;
    const Term sum = reduced(node, "sum", difference * difference);
    const Term divisor = node.reduced_count(at::kDouble) - node.number(2, 1);
    variance = sum / maximum(divisor, divisor.like(0));
  }
};
template <bool kIsRoot>
Terms variance(NodeLowering& node) {
  const Statistics statistics(node);
  return {kIsRoot ? sqrt(statistics.variance) : statistics.variance, statistics.mean};
}

Terms logsumexp(NodeLowering& node) {
  const Term x = node.operand(0), largest = reduced(node, "max", x);
  const Term shift = largest.apply("is_inf").choose(0.0, largest);
  return {log(reduced(node, "sum", exp(x - shift))) + shift};
}

Terms vector_norm(NodeLowering& node) {
  const Term size = abs(node.own(0).is_complex() ? node.own(0) : node.operand(0)).to(NodeLowering::wide(node.dtype()));
  // Of one element eager takes the magnitude, which does not overflow.
  const double asked = node.number(1, 2), order = asked != 0 && node.reduces_one() ? 1 : asked;
  if (std::isinf(order)) return {reduced(node, order > 0 ? "max" : "min", size)};
  if (order == 0) return {reduced(node, "sum", size.differs(0.0).to(size.dtype()))};
  if (order == 1) return {reduced(node, "sum", size)};
  if (order == 2) return {sqrt(reduced(node, "sum", size * size))};
  return {reduced(node, "sum", size.apply("pow", order)).apply("pow", 1 / order)};
}

bool has_list(const NodeArguments& node) { return !node.is_given(1) || !node.integers(1).empty(); }

constexpr char kSum[] = "sum", kProd[] = "prod", kMin[] = "min", kMax[] = "max";
constexpr char kArgmin[] = "argmin", kArgmax[] = "argmax", kAny[] = "any", kAll[] = "all";

constexpr KernelRow kReductionRows[] = {
    also_complex({"aten.sum", place_reduced_entirely, accumulate<kSum>, has_number_result}),
    also_complex({"aten.sum.dim_IntList", place_reduced_by_list<1>, accumulate<kSum>, has_number_result}),
    also_complex({"aten.mean", place_reduced_entirely, mean, has_inexact_result}),
    also_complex({"aten.mean.dim", place_reduced_by_list<1>, mean, has_inexact_result}),
    {"aten.prod", place_reduced_entirely, accumulate<kProd>, has_number_result},
    {"aten.prod.dim_int", place_reduced_by_list<1>, accumulate<kProd>, has_number_result},
    {"aten.amax", place_reduced_by_list<1>, extreme<kMax>},
    {"aten.amin", place_reduced_by_list<1>, extreme<kMin>},
    {"aten.max", place_reduced_entirely, extreme<kMax>},
    {"aten.min", place_reduced_entirely, extreme<kMin>},
    {"aten.aminmax", place_reduced_by_list<1>, extremes},
    {"aten.max.dim", place_reduced_by_list<1>, extreme_and_position<kMax, kArgmax>},
    {"aten.min.dim", place_reduced_by_list<1>, extreme_and_position<kMin, kArgmin>},
    {"aten.argmax", place_reduced_by_list<1>, position<kArgmax>},
    {"aten.argmin", place_reduced_by_list<1>, position<kArgmin>},
    also_complex({"aten.any", place_reduced_entirely, truth<kAny>}),
    also_complex({"aten.any.dim", place_reduced_by_list<1>, truth<kAny>}),
    also_complex({"aten.any.dims", place_reduced_by_list<1>, truth<kAny>, has_list}),
    also_complex({"aten.all", place_reduced_entirely, truth<kAll>}),
    also_complex({"aten.all.dim", place_reduced_by_list<1>, truth<kAll>}),
    also_complex({"aten.all.dims", place_reduced_by_list<1>, truth<kAll>, has_list}),
    also_complex({"aten.count_nonzero", place_reduced_by_list<1>, count_nonzero}),
    also_complex({"aten.count_nonzero.dim_IntList", place_reduced_by_list<1>, count_nonzero}),
    {"aten.var.correction", place_reduced_by_list<1>, variance<false>, has_float_result},
    {"aten.std.correction", place_reduced_by_list<1>, variance<true>, has_float_result},
    {"aten.var_mean.correction", place_reduced_by_list<1>, variance<false>, has_float_result},
    {"aten.std_mean.correction", place_reduced_by_list<1>, variance<true>, has_float_result},
    {"aten.logsumexp", place_reduced_by_list<1>, logsumexp, has_float_result},
    also_complex({"aten.linalg_vector_norm", place_reduced_by_list<2>, vector_norm, has_float_result}),
};

}  // namespace

std::span<const KernelRow> reduction_rows() { return kReductionRows; }

}  // namespace diptych::detail
