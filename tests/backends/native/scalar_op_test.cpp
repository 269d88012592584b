// Every scalar operation of kernels gives what ATen's operator gives, on numbers of every kind.
#include "diptych/native/kernel/scalar_op.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "backends/native/kernel_case.h"
#include "diptych/graph/tensor_meta.h"
#include "testing/same_tensors.h"

namespace diptych {

using namespace detail;
namespace {

using testing::run_kernel;
using testing::Tensors;

template <class T>
std::vector<T> special_floats() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers = {0,
                            1,
                            0.5,
                            2,
                            1.5,
                            2.5,
                            3,
                            7.25F,
                            1e-3F,
                            0.999F,
                            1e5F,
                            30,
                            88,
                            Limits::denorm_min(),
                            Limits::min(),
                            Limits::min() / 3,
                            Limits::max(),
                            Limits::epsilon(),
                            Limits::infinity()};
  const size_t count = numbers.size();
  for (size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  numbers.push_back(Limits::quiet_NaN());
  return numbers;
}

template <class T>
at::Tensor special_integers() {
  using Limits = std::numeric_limits<T>;
  std::vector<int64_t> numbers = {0, 1, 2, 3, 5, 7, 8, 31, 100, Limits::max(), Limits::min()};
  if (Limits::is_signed) numbers.insert(numbers.end(), {-1, -2, -3, -7, -100});
  return at::tensor(numbers).to(c10::CppTypeToScalarType<T>::value);
}

// One of each kind of number that the dtype has.
at::Tensor numbers_of_each_kind(at::ScalarType dtype) {
  if (dtype == at::kBool) return at::tensor({0, 1}).to(at::kBool);
  if (dtype == at::kFloat) return at::tensor(special_floats<float>());
  if (dtype == at::kDouble) return at::tensor(special_floats<double>());
  if (has_dtype(kHalves, dtype)) return at::tensor(special_floats<float>()).to(dtype);
  if (dtype == at::kByte) return special_integers<uint8_t>();
  if (dtype == at::kChar) return special_integers<int8_t>();
  if (dtype == at::kShort) return special_integers<int16_t>();
  if (dtype == at::kInt) return special_integers<int32_t>();
  if (dtype == at::kLong) return special_integers<int64_t>();
  // Infinite and huge complex numbers are each library's own affair.
  return at::cat({at::randn({40}, dtype), at::tensor({0, 1, -1, 2}).to(dtype)});
}

using AtenFunction = std::function<at::Tensor(const Tensors&)>;

struct AtenCase {
  std::string_view name;
  AtenFunction function;
  double rtol = 0;  // of f32; f64 is allowed 1e-8 of it
};

#define DIPTYCH_UNARY(function) [](const Tensors& x) { return function(x[0]); }
#define DIPTYCH_BINARY(function) [](const Tensors& x) { return function(x[0], x[1]); }

// A tensor at a time: the vectors of eager's fmod and remainder make NaN of large quotients, its scalars do not.
AtenFunction one_by_one(const AtenFunction& function) {
  return [function](const Tensors& x) {
    Tensors results;
    for (int64_t i = 0; i < x[0].numel(); ++i)
      results.push_back(function({x[0].slice(0, i, i + 1), x[1].slice(0, i, i + 1)}));
    return at::cat(results);
  };
}

// Eager divides the logarithm by a complex number, of which NaN comes for 0 where vectors do not do it part by part.
at::Tensor log2_by_parts(const at::Tensor& x) {
  if (!x.is_complex()) return at::log2(x);
  return at::view_as_complex(at::view_as_real(at::log(x)) / std::log(2.0));
}

// Elementary functions may differ in their last bits.
constexpr double kUlps = 2e-6;

const std::vector<AtenCase>& aten_cases() {
  static const std::vector<AtenCase> cases = {
      {"add", DIPTYCH_BINARY(at::add)},
      {"sub", DIPTYCH_BINARY(at::sub)},
      {"mul", DIPTYCH_BINARY(at::mul), 1e-6},
      {"rounded_mul", DIPTYCH_BINARY(at::mul)},
      {"div", DIPTYCH_BINARY(at::div), 1e-6},
      {"trunc_div", [](const Tensors& x) { return at::div(x[0], x[1], "trunc"); }},
      {"floor_div", [](const Tensors& x) { return at::div(x[0], x[1], "floor"); }},
      {"rem", one_by_one(DIPTYCH_BINARY(at::remainder))},
      {"fmod", one_by_one(DIPTYCH_BINARY(at::fmod))},
      {"pow", DIPTYCH_BINARY(at::pow), 1e-5},
      {"neg", DIPTYCH_UNARY(at::neg)},
      {"abs", DIPTYCH_UNARY(at::abs), 1e-6},
      {"sign", DIPTYCH_UNARY(at::sgn), 1e-6},
      {"min", DIPTYCH_BINARY(at::minimum)},
      {"max", DIPTYCH_BINARY(at::maximum)},
      {"sqrt", DIPTYCH_UNARY(at::sqrt), kUlps},
      {"rsqrt", DIPTYCH_UNARY(at::rsqrt), kUlps},
      {"exp", DIPTYCH_UNARY(at::exp), kUlps},
      {"exp2", DIPTYCH_UNARY(at::exp2), kUlps},
      {"expm1", DIPTYCH_UNARY(at::expm1), kUlps},
      {"log", DIPTYCH_UNARY(at::log), kUlps},
      {"log2", DIPTYCH_UNARY(log2_by_parts), kUlps},
      {"log10", DIPTYCH_UNARY(at::log10), kUlps},
      {"log1p", DIPTYCH_UNARY(at::log1p), kUlps},
      {"sin", DIPTYCH_UNARY(at::sin), kUlps},
      {"cos", DIPTYCH_UNARY(at::cos), kUlps},
      {"tan", DIPTYCH_UNARY(at::tan), kUlps},
      {"asin", DIPTYCH_UNARY(at::asin), kUlps},
      {"acos", DIPTYCH_UNARY(at::acos), kUlps},
      {"atan", DIPTYCH_UNARY(at::atan), kUlps},
      {"sinh", DIPTYCH_UNARY(at::sinh), kUlps},
      {"cosh", DIPTYCH_UNARY(at::cosh), kUlps},
      {"tanh", DIPTYCH_UNARY(at::tanh), kUlps},
      {"asinh", DIPTYCH_UNARY(at::asinh), kUlps},
      {"acosh", DIPTYCH_UNARY(at::acosh), kUlps},
      {"atanh", DIPTYCH_UNARY(at::atanh), kUlps},
      {"atan2", DIPTYCH_BINARY(at::atan2), kUlps},
      {"hypot", DIPTYCH_BINARY(at::hypot), kUlps},
      {"erf", DIPTYCH_UNARY(at::erf), kUlps},
      {"erfc", DIPTYCH_UNARY(at::erfc), kUlps},
      {"erfinv", DIPTYCH_UNARY(at::erfinv), kUlps},
      {"lgamma", DIPTYCH_UNARY(at::lgamma), kUlps},
      {"digamma", DIPTYCH_UNARY(at::digamma), kUlps},
      {"floor", DIPTYCH_UNARY(at::floor)},
      {"ceil", DIPTYCH_UNARY(at::ceil)},
      {"trunc", DIPTYCH_UNARY(at::trunc)},
      {"round", DIPTYCH_UNARY(at::round)},
      {"eq", DIPTYCH_BINARY(at::eq)},
      {"ne", DIPTYCH_BINARY(at::ne)},
      {"lt", DIPTYCH_BINARY(at::lt)},
      {"le", DIPTYCH_BINARY(at::le)},
      {"gt", DIPTYCH_BINARY(at::gt)},
      {"ge", DIPTYCH_BINARY(at::ge)},
      {"is_nan", DIPTYCH_UNARY(at::isnan)},
      {"is_inf", DIPTYCH_UNARY(at::isinf)},
      {"is_finite", DIPTYCH_UNARY(at::isfinite)},
      {"sign_bit", DIPTYCH_UNARY(at::signbit)},
      {"copysign", DIPTYCH_BINARY(at::copysign)},
      {"and", DIPTYCH_BINARY(at::bitwise_and)},
      {"or", DIPTYCH_BINARY(at::bitwise_or)},
      {"xor", DIPTYCH_BINARY(at::bitwise_xor)},
      {"not", DIPTYCH_UNARY(at::bitwise_not)},
      {"shift_left", DIPTYCH_BINARY(at::bitwise_left_shift)},
      {"shift_right", DIPTYCH_BINARY(at::bitwise_right_shift)},
      {"real", DIPTYCH_UNARY(at::real)},
      {"imag", DIPTYCH_UNARY(at::imag)},
      {"conj", DIPTYCH_UNARY(at::conj_physical)},
      {"complex", DIPTYCH_BINARY(at::complex)},
      {"select", [](const Tensors& x) { return at::where(x[0], x[1], x[2]); }},
  };
  return cases;
}

// Runs one operation over vectors of operands.
at::Tensor evaluate_op(std::string_view name, const Tensors& operands, at::ScalarType result) {
  std::string buffers, loads, list;
  for (size_t i = 0; i < operands.size(); ++i) {
    const auto dtype = dtype_name(operands[i].scalar_type());
    buffers += fmt::format("x{} : {}\n", i, dtype);
    loads += fmt::format("%{} : {} = load x{}[d0]\n", i, dtype, i);
    list += fmt::format("{}%{}", i > 0 ? ", " : "", i);
  }
  auto y = at::empty(operands[0].sizes(), result);
  run_kernel(fmt::format("kernel op(d0=s0) {{\n{}y0 : {}\n{}%9 : {} = {} {}\nstore y0[d0] = %9\n}}", buffers,
                         dtype_name(result), loads, dtype_name(result), name, list),
             operands, {y}, {y.numel()});
  return y;
}

// Every number with every other.
Tensors all_pairs(const at::Tensor& a, const at::Tensor& b) {
  const auto pairs = at::meshgrid({a, b}, "ij");
  return {pairs[0].flatten().contiguous(), pairs[1].flatten().contiguous()};
}

// Where eager raises an error or is a fault of the processor: see Note [Scalar operations are total].
bool is_integer_division(std::string_view name, at::ScalarType dtype) {
  static const std::set<std::string_view> divisions = {"trunc_div", "floor_div", "rem", "fmod"};
  return divisions.count(name) != 0 && has_dtype(kIntegers, dtype);
}

Tensors operands_for(const ScalarOp& op, at::ScalarType dtype) {
  const auto numbers = numbers_of_each_kind(dtype);
  if (op.arity == 1) return {numbers};
  auto pairs = all_pairs(numbers, numbers);
  if (op.has_condition) pairs.insert(pairs.begin(), at::rand({pairs[0].numel()}) < 0.5);
  if (is_integer_division(op.name, dtype)) {
    const auto is_defined = (pairs[1] != 0).logical_and(pairs[1] != -1);
    pairs = {pairs[0].masked_select(is_defined), pairs[1].masked_select(is_defined)};
  }
  return pairs;
}

void expect_like(const at::Tensor& got, const at::Tensor& expected, double rtol, const Tensors& operands,
                 const std::string& what) {
  ASSERT_EQ(got.scalar_type(), expected.scalar_type()) << what;
  const auto a = got.is_complex() ? at::view_as_real(got) : got;
  const auto b = expected.is_complex() ? at::view_as_real(expected.resolve_conj()) : expected;
  const bool is_exact = rtol == 0 || !a.is_floating_point();
  const double scale = a.scalar_type() == at::kDouble ? 1e-8 : 1;
  const auto close = is_exact ? a.eq(b).logical_or(a.ne(a).logical_and(b.ne(b)))
                              : at::isclose(a, b, rtol * scale, (got.is_complex() ? rtol : 1e-44) * scale, true);
  const auto wrong = (got.is_complex() ? close.all(-1) : close).logical_not().nonzero();
  for (int64_t i = 0; i < std::min<int64_t>(wrong.size(0), 20); ++i) {
    const auto place = wrong[i].item<int64_t>();
    std::string text;
    for (const auto& operand : operands) text += c10::str(operand[place].item(), ' ');
    ADD_FAILURE() << what << " of " << text << "is " << got[place].item() << ", expected " << expected[place].item();
  }
}

TEST(ScalarOps, AgreeWithAten) {
  at::manual_seed(0);
  for (const AtenCase& row : aten_cases()) {
    const ScalarOp* op = find_scalar_op(row.name);
    ASSERT_NE(op, nullptr) << row.name;
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
      const auto dtype = static_cast<at::ScalarType>(i);
      if (!has_dtype(op->operands, dtype)) continue;
      const auto operands = operands_for(*op, dtype);
      const auto got = evaluate_op(row.name, operands, *result_dtype(op->result, dtype));
      expect_like(got, row.function(operands), row.rtol, operands, fmt::format("{} {}", row.name, dtype_name(dtype)));
    }
  }
}

TEST(ScalarOps, AreAllCompared) {
  std::set<std::string_view> names = {"fma", "cast"};  // the tests below
  for (const AtenCase& row : aten_cases()) names.insert(row.name);
  for (const ScalarOp& op : scalar_ops()) EXPECT_EQ(names.count(op.name), 1U) << op.name;
  EXPECT_EQ(names.size(), scalar_ops().size());
}

TEST(ScalarOps, CastAsAtenDoes) {
  at::manual_seed(0);
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    const auto from = static_cast<at::ScalarType>(i);
    if (!has_dtype(kStored, from)) continue;
    for (int j = 0; j < static_cast<int>(at::ScalarType::NumOptions); ++j) {
      const auto to = static_cast<at::ScalarType>(j);
      if (!has_dtype(kStored, to)) continue;
      auto numbers = numbers_of_each_kind(from);
      // C++ leaves open what a float becomes that an integer cannot hold.
      if (has_dtype(kIntegers, to) && !has_dtype(kIntegers | kBools, from)) {
        const auto real = numbers.is_complex() ? at::real(numbers) : numbers;
        numbers = numbers.masked_select((real.abs() < 100).logical_and(real > (to == at::kByte ? -1 : -100)));
      }
      expect_like(evaluate_op("cast", {numbers}, to), numbers.to(to), 0, {numbers},
                  fmt::format("cast {} to {}", dtype_name(from), dtype_name(to)));
    }
  }
}

TEST(ScalarOps, FusedMultiplyAddRoundsOnce) {
  const auto a = at::randn({100}), b = at::randn({100}), c = -(a * b);
  const auto exact = (a.to(at::kDouble) * b.to(at::kDouble) + c.to(at::kDouble)).to(at::kFloat);
  expect_like(evaluate_op("fma", {a, b, c}, at::kFloat), exact, 0, {a, b, c}, "fma");
  EXPECT_GT(exact.abs().max().item<float>(), 0);
}

TEST(ScalarOps, AreTotalWhereEagerFails) {
  const auto least = std::numeric_limits<int64_t>::min();
  const auto a = at::tensor({int64_t{7}, least, int64_t{-7}}), b = at::tensor({int64_t{0}, int64_t{-1}, int64_t{0}});
  const auto zero = at::zeros({3}, at::kLong), kept = at::tensor({int64_t{0}, least, int64_t{0}});
  expect_like(evaluate_op("trunc_div", {a, b}, at::kLong), kept, 0, {a, b}, "trunc_div");
  expect_like(evaluate_op("floor_div", {a, b}, at::kLong), kept, 0, {a, b}, "floor_div");
  expect_like(evaluate_op("rem", {a, b}, at::kLong), zero, 0, {a, b}, "rem");
  expect_like(evaluate_op("fmod", {a, b}, at::kLong), zero, 0, {a, b}, "fmod");
}

}  // namespace
}  // namespace diptych
