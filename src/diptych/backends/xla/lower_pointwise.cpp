// Operators whose result's elements depend on one element of each operand.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "diptych/backends/xla/lowering.h"

namespace diptych::detail {
namespace {

using Direction = const char*;

// Operators that compute in the result's dtype.
Hlo apply_unary(const Lowering& node, std::string_view operation) {
  const auto computed = Lowering::wide(node.dtype());
  return node.writer().convert(node.writer().unary(operation, node.spread(0, computed)), node.dtype());
}
template <const char* kOperation>
std::vector<Hlo> unary(const Lowering& node) {
  return {apply_unary(node, kOperation)};
}
template <const char* kOperation>
std::vector<Hlo> chlo_unary(const Lowering& node) {
  const auto computed = Lowering::wide(node.dtype());
  return {node.writer().convert(node.writer().chlo(kOperation, node.spread(0, computed)), node.dtype())};
}
template <const char* kOperation>
std::vector<Hlo> binary(const Lowering& node) {
  return {node.writer().binary(kOperation, node.spread(0, node.dtype()), node.spread(1, node.dtype()))};
}

// The absolute value of a complex number is real.
std::vector<Hlo> absolute(const Lowering& node) {
  const Hlo x = node.spread(0, node.tensor(0).dtype);
  if (!at::isComplexType(x.dtype)) {
    if (x.dtype == at::kByte || x.dtype == at::kBool) return {x};
    return {node.writer().unary("abs", x)};
  }
  return {node.writer().complex_part("abs", x)};
}

// a + alpha * b, with the number's product left out where it is one.
template <const char* kOperation>
std::vector<Hlo> scaled(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto alpha = node.scalar(2, 1);
  Hlo right = node.spread(1, node.dtype());
  const bool is_one = alpha.equal(1);
  if (!is_one && node.dtype() != at::kBool) right = writer.binary("multiply", right, node.filled(alpha, right));
  return {writer.binary(kOperation, node.spread(0, node.dtype()), right)};
}

std::vector<Hlo> multiply(const Lowering& node) {
  const Hlo left = node.spread(0, node.dtype()), right = node.spread(1, node.dtype());
  return {node.writer().binary(node.dtype() == at::kBool ? "and" : "multiply", left, right)};
}

Hlo truncate(HloWriter& writer, const Hlo& x) {
  return writer.binary("multiply", writer.unary("sign", x), writer.unary("floor", writer.unary("abs", x)));
}

// Integer division by zero is eager's error, and floors of quotients follow fmod there: both are left to the
// interpreter.
std::vector<Hlo> divide(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  const Hlo quotient = writer.binary("divide", node.spread(0, computed), node.spread(1, computed));
  const bool truncates = node.is_given(2);
  return {writer.convert(truncates ? truncate(writer, quotient) : quotient, node.dtype())};
}
bool is_exact_division(const Lowering& node) {
  if (at::isComplexType(node.dtype())) return !node.is_given(2);
  return at::isFloatingType(node.dtype()) && node.text(2) != "floor";
}
bool is_float_result(const Lowering& node) { return at::isFloatingType(node.dtype()); }
bool is_real_operand(const Lowering& node) {
  return !at::isComplexType(node.graph().meta(std::get<Value>(node.node().operands[0])).dtype);
}

template <const char* kDirection>
std::vector<Hlo> compare(const Lowering& node) {
  const auto dtype = node.common_dtype({0, 1});
  return {node.writer().compare(kDirection, node.spread(0, dtype), node.spread(1, dtype))};
}

// Maxima and minima hand NaN on, as ATen's do.
template <const char* kOperation>
std::vector<Hlo> extremum(const Lowering& node) {
  return {node.writer().binary(kOperation, node.spread(0, node.dtype()), node.spread(1, node.dtype()))};
}

std::vector<Hlo> where(const Lowering& node) {
  const Hlo condition =
      node.writer().compare("NE", node.spread(0, at::kBool), node.writer().constant(false, at::kBool, node.sizes()));
  return {node.writer().select(condition, node.spread(1, node.dtype()), node.spread(2, node.dtype()))};
}

std::vector<Hlo> masked_fill(const Lowering& node) {
  return {node.writer().select(node.spread(1, at::kBool), node.spread(2, node.dtype()), node.spread(0, node.dtype()))};
}

std::vector<Hlo> relu(const Lowering& node) {
  const Hlo x = node.spread(0, node.dtype());
  return {node.writer().binary("maximum", x, node.filled(0, x))};
}

std::vector<Hlo> threshold_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.spread(0, node.dtype()), x = node.spread(1, node.dtype());
  const Hlo is_below = writer.compare("LE", x, node.filled(node.scalar(2), x));
  return {writer.select(is_below, node.filled(0, gradient), gradient)};
}

// Bounds that are numbers, or tensors; NaN stays.
std::vector<Hlo> clamp(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.spread(0, node.dtype());
  if (node.is_given(1)) x = writer.binary("maximum", x, node.spread(1, node.dtype()));
  if (node.is_given(2)) x = writer.binary("minimum", x, node.spread(2, node.dtype()));
  return {x};
}

std::vector<Hlo> power(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  const Hlo base = node.spread(0, computed);
  const bool is_square = !node.has_tensor(1) && node.scalar(1).equal(2);
  const Hlo result =
      is_square ? writer.binary("multiply", base, base) : writer.binary("power", base, node.spread(1, computed));
  return {writer.convert(result, node.dtype())};
}
bool has_plain_power(const Lowering& node) { return at::isFloatingType(node.dtype()); }

std::vector<Hlo> reciprocal(const Lowering& node) {
  const auto computed = Lowering::wide(node.dtype());
  const Hlo x = node.spread(0, computed);
  return {node.writer().convert(node.writer().binary("divide", node.filled(1, x), x), node.dtype())};
}

std::vector<Hlo> subtract_from(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo left = node.spread(0, node.dtype());
  const auto alpha = node.scalar(2, 1);
  if (!alpha.equal(1)) left = writer.binary("multiply", left, node.filled(alpha, left));
  return {writer.binary("subtract", node.spread(1, node.dtype()), left)};
}

std::vector<Hlo> logical_not(const Lowering& node) {
  const Hlo x = node.spread(0, node.tensor(0).dtype);
  return {node.writer().compare("EQ", x, node.filled(0, x))};
}
template <const char* kOperation>
std::vector<Hlo> logical(const Lowering& node) {
  HloWriter& writer = node.writer();
  return {writer.binary(kOperation, node.spread(0, at::kBool), node.spread(1, at::kBool))};
}
std::vector<Hlo> bitwise_not(const Lowering& node) {
  return {node.writer().unary("not", node.spread(0, node.dtype()))};
}

std::vector<Hlo> is_nan(const Lowering& node) {
  const Hlo x = node.tensor(0);
  return {node.writer().compare("NE", x, x)};
}

std::vector<Hlo> copy_to(const Lowering& node) { return {node.spread(0, node.dtype())}; }
std::vector<Hlo> copy_source(const Lowering& node) { return {node.spread(1, node.dtype())}; }

constexpr char kTanh[] = "tanh", kExp[] = "exponential", kExpm1[] = "exponential_minus_one", kLog[] = "log",
               kErf[] = "erf";
constexpr char kLog1p[] = "log_plus_one", kSqrt[] = "sqrt", kRsqrt[] = "rsqrt", kSin[] = "sine", kCos[] = "cosine";
constexpr char kSigmoid[] = "logistic", kFloor[] = "floor", kCeil[] = "ceil", kRound[] = "round_nearest_even",
               kTan[] = "tan";
constexpr char kNegate[] = "negate", kSign[] = "sign", kAdd[] = "add", kSubtract[] = "subtract", kAnd[] = "and",
               kOr[] = "or";
constexpr char kXor[] = "xor", kMaximum[] = "maximum", kMinimum[] = "minimum", kAtan2[] = "atan2";
constexpr char kEq[] = "EQ", kNe[] = "NE", kLt[] = "LT", kLe[] = "LE", kGt[] = "GT", kGe[] = "GE";

constexpr LoweringRow kPointwiseRows[] = {
    {"aten.tanh", unary<kTanh>},
    {"aten.exp", unary<kExp>},
    {"aten.expm1", unary<kExpm1>},
    {"aten.log", unary<kLog>},
    {"aten.log1p", unary<kLog1p>},
    {"aten.sqrt", unary<kSqrt>},
    {"aten.rsqrt", unary<kRsqrt>},
    {"aten.sin", unary<kSin>},
    {"aten.cos", unary<kCos>},
    {"aten.tan", unary<kTan>},
    {"aten.sigmoid", unary<kSigmoid>},
    {"aten.erf", chlo_unary<kErf>},
    {"aten.floor", unary<kFloor>, is_float_result},
    {"aten.ceil", unary<kCeil>, is_float_result},
    {"aten.round", unary<kRound>, is_float_result},
    {"aten.neg", unary<kNegate>},
    {"aten.sgn", unary<kSign>, is_float_result},
    {"aten.sign", unary<kSign>, is_float_result},
    {"aten.abs", absolute},
    {"aten.reciprocal", reciprocal},
    {"aten.relu", relu},
    {"aten.threshold_backward", threshold_backward},
    {"aten.add.Tensor", scaled<kAdd>},
    {"aten.add.Scalar", scaled<kAdd>},
    {"aten.sub.Tensor", scaled<kSubtract>},
    {"aten.sub.Scalar", scaled<kSubtract>},
    {"aten.rsub.Tensor", subtract_from},
    {"aten.rsub.Scalar", subtract_from},
    {"aten.mul.Tensor", multiply},
    {"aten.mul.Scalar", multiply},
    {"aten.div.Tensor", divide, is_exact_division},
    {"aten.div.Scalar", divide, is_exact_division},
    {"aten.div.Tensor_mode", divide, is_exact_division},
    {"aten.div.Scalar_mode", divide, is_exact_division},
    {"aten.pow.Tensor_Scalar", power, has_plain_power},
    {"aten.pow.Tensor_Tensor", power, has_plain_power},
    {"aten.pow.Scalar", power, has_plain_power},
    {"aten.atan2", binary<kAtan2>, is_float_result},
    {"aten.maximum", extremum<kMaximum>},
    {"aten.minimum", extremum<kMinimum>},
    {"aten.eq.Tensor", compare<kEq>},
    {"aten.eq.Scalar", compare<kEq>},
    {"aten.ne.Tensor", compare<kNe>},
    {"aten.ne.Scalar", compare<kNe>},
    {"aten.lt.Tensor", compare<kLt>},
    {"aten.lt.Scalar", compare<kLt>},
    {"aten.le.Tensor", compare<kLe>},
    {"aten.le.Scalar", compare<kLe>},
    {"aten.gt.Tensor", compare<kGt>},
    {"aten.gt.Scalar", compare<kGt>},
    {"aten.ge.Tensor", compare<kGe>},
    {"aten.ge.Scalar", compare<kGe>},
    {"aten.where.self", where},
    {"aten.masked_fill.Scalar", masked_fill},
    {"aten.masked_fill.Tensor", masked_fill},
    {"aten.clamp", clamp},
    {"aten.clamp.Tensor", clamp},
    {"aten.clamp_min", clamp},
    {"aten.logical_not", logical_not},
    {"aten.logical_and", logical<kAnd>},
    {"aten.logical_or", logical<kOr>},
    {"aten.logical_xor", logical<kXor>},
    {"aten.bitwise_not", bitwise_not},
    {"aten.bitwise_and.Tensor", binary<kAnd>},
    {"aten.bitwise_or.Tensor", binary<kOr>},
    {"aten.bitwise_xor.Tensor", binary<kXor>},
    {"aten.isnan", is_nan, is_real_operand},
    {"aten.clone", copy_to},
    {"aten._to_copy", copy_to, is_real_operand},
    {"aten.detach", copy_to},
    {"aten.alias", copy_to},
    {"aten.contiguous", copy_to},
    {"aten.copy", copy_source},
    {"aten.lift_fresh_copy", copy_to},
};

}  // namespace

std::span<const LoweringRow> pointwise_lowerings() { return kPointwiseRows; }

}  // namespace diptych::detail
