// Activations that have no decomposition, and their derivatives.
#include "diptych/xla/hlo/hlo_term.h"

namespace diptych::detail {
namespace {

// An operand in its own dtype, of its own sizes: for comparisons, which round nothing.
HloTerm own_operand(const Lowering& node, size_t index) { return {node.writer(), node.tensor(index)}; }

HloTerm relu_of(const HloTerm& x) { return maximum(x, x.like(0)); }
HloTerm threshold_of(const Lowering& node, const HloTerm& x) {
  return (x <= x.like(node.scalar(1))).choose(x.like(node.scalar(2)), x);
}
HloTerm threshold_gradient(const Lowering& node, const HloTerm& gradient, const HloTerm& x) {
  return (x <= x.like(node.scalar(2))).choose(0.0, gradient);
}

// tanh(softplus(x)) is n / (n + 2), where n = e (e + 2) and e = exp(x), and its derivative 4 e (e + 1) / (n + 2)^2: 1
// less the square of a tanh near 1 would lose what is left of it. From kSaturated on both are 1 and 0 in every dtype.
struct MishParts {
  static constexpr double kSaturated = 30;
  HloTerm e, n_and_two;
  explicit MishParts(const HloTerm& x) : e(minimum(x, x.like(kSaturated)).exp()), n_and_two(e * (e + 2.0) + 2.0) {}
  HloTerm value() const { return e / n_and_two * (e + 2.0); }
  HloTerm derivative() const { return e / n_and_two * ((e + 1.0) / n_and_two) * 4.0; }
};
HloTerm mish_of(const HloTerm& x) { return x * MishParts(x).value(); }
HloTerm mish_gradient(const HloTerm& gradient, const HloTerm& x) {
  const MishParts parts(x);
  const HloTerm slope = (x >= MishParts::kSaturated).choose(0.0, parts.derivative());
  return gradient * (parts.value() + x * slope);
}

HloTerm celu_of(const Lowering& node, const HloTerm& x) {
  const double alpha = node.number(1, 1);
  return (x < 0.0).choose((x * (1 / alpha)).expm1() * alpha, x);
}

// `x` is inside of the bounds, which NaN is not.
HloTerm is_shrunk(const HloTerm& x, double bound) { return (x >= -bound) & (x <= bound); }
HloTerm hardshrink_of(const Lowering& node, const HloTerm& x) {
  return is_shrunk(x, in_dtype(node, node.number(1, 0.5))).choose(0.0, x);
}
HloTerm shrink_gradient(const Lowering& node, const HloTerm& gradient, const HloTerm& x) {
  return is_shrunk(x, in_dtype(node, node.number(2, 0.5))).choose(0.0, gradient);
}
HloTerm softshrink_of(const Lowering& node, const HloTerm& x) {
  const double bound = node.number(1, 0.5);
  return (x > bound).choose(x - bound, (x < -bound).choose(x + bound, x * 0.0));
}

HloTerm prelu_of(const HloTerm& x, const HloTerm& weight) { return (x > 0.0).choose(x, weight * x); }
std::vector<Hlo> prelu_gradients(const Lowering& node) {
  const HloTerm gradient = computed_operand(node, 0), x = computed_operand(node, 1), weight = computed_operand(node, 2);
  const HloTerm is_kept = x > 0.0;
  const HloTerm of_x = is_kept.choose(gradient, weight * gradient), of_weight = is_kept.choose(0.0, x * gradient);
  return {of_x.to(node.dtype(0)).value(), of_weight.to(node.dtype(1)).value()};
}

// The halves of `x` along a dimension, in the dtype to compute in.
std::pair<HloTerm, HloTerm> halves_of(const HloTerm& x, int64_t dim) {
  const int64_t size = x.value().sizes[dim], middle = size / 2;
  return {x.with(x.writer().slice_along(x.value(), dim, 0, middle)),
          x.with(x.writer().slice_along(x.value(), dim, middle, size))};
}
std::vector<Hlo> gated_linear_unit(const Lowering& node) {
  const HloTerm x = own_operand(node, 0).to(Lowering::wide(node.dtype()));
  const auto [value, gate] = halves_of(x, Lowering::wrap(node.integer(1, -1), x.value().dim()));
  return as_result(node, value * gate.unary("logistic"));
}
std::vector<Hlo> gated_linear_unit_gradient(const Lowering& node) {
  const auto computed = Lowering::wide(node.dtype());
  const HloTerm gradient = own_operand(node, 0).to(computed), x = own_operand(node, 1).to(computed);
  const int64_t dim = Lowering::wrap(node.integer(2), x.value().dim());
  const auto [value, gate] = halves_of(x, dim);
  const HloTerm opened = gate.unary("logistic"), passed = opened * gradient;
  const HloTerm of_gate = (1.0 - opened) * passed * value;
  return as_result(node, x.with(node.writer().concatenate({passed.value(), of_gate.value()}, dim)));
}

constexpr LoweringRow kActivationRows[] = {
    {"aten.relu", formula_of_one<relu_of>},
    {"aten.threshold", formula_with_numbers<threshold_of>},
    {"aten.threshold_backward", formula_of_two_with_numbers<threshold_gradient>},
    {"aten.mish", formula_of_one<mish_of>},
    {"aten.mish_backward", formula_of_two<mish_gradient>},
    {"aten.celu", formula_with_numbers<celu_of>},
    {"aten.hardshrink", formula_with_numbers<hardshrink_of>},
    {"aten.hardshrink_backward", formula_of_two_with_numbers<shrink_gradient>},
    {"aten.softshrink", formula_with_numbers<softshrink_of>},
    {"aten.softshrink_backward", formula_of_two_with_numbers<shrink_gradient>},
    {"aten._prelu_kernel", formula_of_two<prelu_of>},
    {"aten._prelu_kernel_backward", prelu_gradients},
    {"aten.glu", gated_linear_unit},
    {"aten.glu_backward", gated_linear_unit_gradient},
};

}  // namespace

std::span<const LoweringRow> pointwise_activation_lowerings() { return kActivationRows; }

}  // namespace diptych::detail
