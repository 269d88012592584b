// Arithmetic, comparisons, selections and copies of elements.
#include <ATen/Dispatch_v2.h>

#include "diptych/xla/hlo/hlo_term.h"

namespace diptych::detail {
namespace {

// An elementwise operation in the result's dtype, which rounds nothing.
template <const char* kOperation>
HloTerm plain_binary(const HloTerm& x, const HloTerm& y) {
  return x.binary(kOperation, y);
}

std::vector<Hlo> absolute(const Lowering& node) {
  return {HloTerm(node.writer(), node.spread(0, node.tensor(0).dtype)).abs().value()};
}

bool is_zero(const Lowering& node, size_t index) {
  const Operand& operand = node.node().operands[index];
  if (const auto* wrapped = std::get_if<WrappedNumber>(&operand)) return wrapped->number.equal(0);
  return std::holds_alternative<c10::IValue>(operand) && node.scalar(index).equal(0);
}
// a + alpha * b, with the number's product left out where it is one.
HloTerm scaled_operand(const Lowering& node, size_t index) {
  const HloTerm x = computed_operand(node, index);
  const auto alpha = node.scalar(2, 1);
  // The compiler takes x + 0 for x, which makes no 0 of -0.
  if (is_zero(node, index)) return x.opaque();
  if (alpha.equal(1)) return x;
  return x.dtype() == at::kBool ? x & x.like(alpha) : x * x.like(alpha);
}
template <const char* kOperation>
std::vector<Hlo> scaled(const Lowering& node) {
  return as_result(node, computed_operand(node, 0).binary(kOperation, scaled_operand(node, 1)));
}
std::vector<Hlo> subtract_from(const Lowering& node) {
  return as_result(node, computed_operand(node, 1) - scaled_operand(node, 0));
}
// Eager multiplies by a complex one, which makes NaN of infinities.
bool subtracts_alike(const Lowering& node) {
  return at::isComplexType(node.dtype()) == at::isComplexType(operand_dtype(node, 0));
}
HloTerm product_of(const HloTerm& x, const HloTerm& y) { return x.dtype() == at::kBool ? x & y : x * y; }
// XLA takes the product of a number and a converted truth for a choice of that number or zero, also where it is none.
std::vector<Hlo> multiply(const Lowering& node) {
  for (const size_t truth : {0, 1}) {
    const auto* value = std::get_if<Value>(&node.node().operands[truth]);
    if (node.dtype() == at::kBool || !value || node.graph().meta(*value).dtype != at::kBool) continue;
    const HloTerm x = computed_operand(node, 1 - truth), is_true(node.writer(), node.spread(truth, at::kBool));
    return as_result(node, is_true.choose(x, x * x.like(0)));
  }
  return formula_of_two_exactly<product_of>(node);
}

template <const char* kOperation>
std::vector<Hlo> rounded(const Lowering& node) {
  const HloTerm x = computed_operand(node, 0);
  return as_result(node, at::isFloatingType(x.dtype()) ? x.unary(kOperation) : x);
}
std::vector<Hlo> truncated(const Lowering& node) {
  const HloTerm x = computed_operand(node, 0);
  return as_result(node, at::isFloatingType(x.dtype()) ? x.truncated() : x);
}

// Comparisons in the dtype that both operands promote to.
template <const char* kDirection>
std::vector<Hlo> compare(const Lowering& node) {
  const auto dtype = node.common_dtype({0, 1});
  return {node.writer().compare(kDirection, node.spread(0, dtype), node.spread(1, dtype))};
}

// Half beside a complex number is compared as a dtype that HLO does not have.
bool has_common_type(const Lowering& node) { return has_hlo_type(node.common_dtype({0, 1})); }

std::vector<Hlo> where(const Lowering& node) {
  return {node.writer().select(node.spread(0, at::kBool), node.spread(1, node.dtype()), node.spread(2, node.dtype()))};
}
std::vector<Hlo> masked_fill(const Lowering& node) {
  return {node.writer().select(node.spread(1, at::kBool), node.spread(2, node.dtype()), node.spread(0, node.dtype()))};
}

// Bounds that are numbers, or tensors, by position; 0 for none. NaN is handed on, as in ATen.
template <size_t kLow, size_t kHigh>
std::vector<Hlo> clamp(const Lowering& node) {
  const auto operand = [&](size_t index) { return HloTerm(node.writer(), node.spread(index, node.dtype())); };
  HloTerm x = operand(0);
  if (kLow != 0 && node.is_given(kLow)) x = maximum(x, operand(kLow));
  if (kHigh != 0 && node.is_given(kHigh)) x = minimum(x, operand(kHigh));
  return {x.value()};
}

std::vector<Hlo> logical_not(const Lowering& node) {
  const Hlo x = node.spread(0, node.tensor(0).dtype);
  return {node.writer().compare("EQ", x, node.filled(0, x))};
}
template <const char* kOperation>
std::vector<Hlo> logical(const Lowering& node) {
  return {node.writer().binary(kOperation, node.spread(0, at::kBool), node.spread(1, at::kBool))};
}

// Whole numbers that a float cannot become are undefined in C++: there XLA gives the nearest one, where eager gives
// what the processor gives.
std::vector<Hlo> copy_to(const Lowering& node) { return {node.spread(0, node.dtype())}; }
std::vector<Hlo> copy_source(const Lowering& node) { return {node.spread(1, node.dtype())}; }

constexpr char kNegate[] = "negate", kNot[] = "not", kFloor[] = "floor", kCeil[] = "ceil";
constexpr char kRound[] = "round_nearest_even", kAdd[] = "add", kSubtract[] = "subtract";
constexpr char kAnd[] = "and", kOr[] = "or", kXor[] = "xor";
constexpr char kEq[] = "EQ", kNe[] = "NE", kLt[] = "LT", kLe[] = "LE", kGt[] = "GT", kGe[] = "GE";

template <const char* kOperation>
HloTerm plain_unary(const HloTerm& x) {
  return x.unary(kOperation);
}
template <const char* kOperation>
constexpr LoweringRule kUnaryRule = formula_of_one<plain_unary<kOperation>>;
template <const char* kOperation>
constexpr LoweringRule kBinaryRule = formula_of_two<plain_binary<kOperation>>;

// A bound that the dtype can't hold is refused, wrapped or ignored by eager, as its version has it.
bool has_bounds_of_dtype(const Lowering& node) {
  for (const size_t i : {1, 2}) {
    if (i >= node.node().operands.size() || node.has_tensor(i) || !node.is_given(i)) continue;
    const bool holds = AT_DISPATCH_V2(node.dtype(), "clamp",
                                      AT_WRAP([&] { return !c10::overflows<scalar_t, double>(node.number(i), true); }),
                                      AT_EXPAND(AT_ALL_TYPES), at::kHalf, at::kBFloat16);
    if (!holds) return false;
  }
  return true;
}

constexpr LoweringRow kPointwiseRows[] = {
    {"diptych.checked", copy_to},
    {"aten.neg", kUnaryRule<kNegate>},
    {"aten.abs", absolute},
    {"aten.floor", rounded<kFloor>},
    {"aten.ceil", rounded<kCeil>},
    {"aten.round", rounded<kRound>},
    {"aten.trunc", truncated},
    {"aten.add.Tensor", scaled<kAdd>},
    {"aten.add.Scalar", scaled<kAdd>},
    {"aten.sub.Tensor", scaled<kSubtract>},
    {"aten.sub.Scalar", scaled<kSubtract>},
    {"aten.rsub.Tensor", subtract_from},
    {"aten.rsub.Scalar", subtract_from, subtracts_alike},
    {"aten.mul.Tensor", multiply},
    {"aten.mul.Scalar", multiply},
    {"aten.maximum", formula_of_two<maximum>},
    {"aten.minimum", formula_of_two<minimum>},
    {"aten.eq.Tensor", compare<kEq>, has_common_type},
    {"aten.eq.Scalar", compare<kEq>, has_common_type},
    {"aten.ne.Tensor", compare<kNe>, has_common_type},
    {"aten.ne.Scalar", compare<kNe>, has_common_type},
    {"aten.lt.Tensor", compare<kLt>},
    {"aten.lt.Scalar", compare<kLt>},
    {"aten.le.Tensor", compare<kLe>},
    {"aten.le.Scalar", compare<kLe>},
    {"aten.gt.Tensor", compare<kGt>},
    {"aten.gt.Scalar", compare<kGt>},
    {"aten.ge.Tensor", compare<kGe>},
    {"aten.ge.Scalar", compare<kGe>},
    {"aten.where.self", where},
    {"aten.where.ScalarOther", where},
    {"aten.where.ScalarSelf", where},
    {"aten.where.Scalar", where},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.clamp", clamp<1, 2>, has_bounds_of_dtype},
    {"aten.clamp.Tensor", clamp<1, 2>, has_bounds_of_dtype},
    {"aten.hardtanh", clamp<1, 2>, has_bounds_of_dtype},
    {"aten.clamp_min", clamp<1, 0>, has_bounds_of_dtype},
    {"aten.clamp_min.Tensor", clamp<1, 0>, has_bounds_of_dtype},
    {"aten.clamp_max", clamp<0, 1>, has_bounds_of_dtype},
    {"aten.clamp_max.Tensor", clamp<0, 1>, has_bounds_of_dtype},
    {"aten.logical_not", logical_not},
    {"aten.logical_and", logical<kAnd>},
    {"aten.logical_or", logical<kOr>},
    {"aten.logical_xor", logical<kXor>},
    {"aten.bitwise_not", kUnaryRule<kNot>},
    {"aten.bitwise_and.Tensor", kBinaryRule<kAnd>},
    {"aten.bitwise_and.Scalar", kBinaryRule<kAnd>},
    {"aten.bitwise_and.Scalar_Tensor", kBinaryRule<kAnd>},
    {"aten.bitwise_or.Tensor", kBinaryRule<kOr>},
    {"aten.bitwise_or.Scalar", kBinaryRule<kOr>},
    {"aten.bitwise_or.Scalar_Tensor", kBinaryRule<kOr>},
    {"aten.bitwise_xor.Tensor", kBinaryRule<kXor>},
    {"aten.bitwise_xor.Scalar", kBinaryRule<kXor>},
    {"aten.bitwise_xor.Scalar_Tensor", kBinaryRule<kXor>},
    {"aten.clone", copy_to},
    {"aten._to_copy", copy_to},
    {"aten.detach", copy_to},
    {"aten.alias", copy_to},
    {"aten.contiguous", copy_to},
    {"aten.copy", copy_source},
    {"aten.lift_fresh_copy", copy_to},
    {"aten.fill.Scalar", copy_source},
    {"aten.fill.Tensor", copy_source},
};

}  // namespace

std::span<const LoweringRow> pointwise_lowerings() { return kPointwiseRows; }

}  // namespace diptych::detail
