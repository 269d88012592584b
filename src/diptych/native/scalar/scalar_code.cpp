#include "diptych/native/scalar/scalar_code.h"

#include <algorithm>
#include <bit>
#include <span>

#include "diptych/base/check.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/scalar/casts.h"
#include "diptych/native/scalar/inline_functions.h"
#include "diptych/native/scalar/op_code.h"
#include "diptych/native/scalar/sleef.h"
#include "diptych/native/scalar/special_functions.h"

namespace diptych::detail {
namespace {

using Write = std::string (*)(const OpCode&);

struct Row {
  std::string_view name;
  DtypeSet dtypes;
  Write write;
  bool is_expensive = false;
  DtypeSet sleef = 0;  // the dtypes for which SLEEF has the function
};

constexpr DtypeSet kReal = kIntegers | kFloats;
constexpr DtypeSet kOrdered = kBools | kReal;

// The quotient of integers that Note [Scalar operations are total] asks for, with no trap.
std::string integer_quotient(const OpCode& op) {
  const auto zero = op.constant(0), one = op.constant(1);
  const auto is_zero = op.compare("eq", op[1], zero);
  if (op.is_unsigned()) {
    return op.select(is_zero, zero, op.binary("udiv", op[0], op.select(is_zero, one, op[1])));
  }
  const auto is_minus_one = op.compare("eq", op[1], op.constant(-1));
  const auto divisor = op.select(op.logic("or", is_zero, is_minus_one), one, op[1]);
  const auto quotient = op.select(is_minus_one, op.binary("sub", zero, op[0]), op.binary("sdiv", op[0], divisor));
  return op.select(is_zero, zero, quotient);
}

// What is left of integers when their quotient is cut; 0 where there is no quotient.
std::string integer_remainder(const OpCode& op) {
  const auto zero = op.constant(0), one = op.constant(1);
  auto has_none = op.compare("eq", op[1], zero);
  if (!op.is_unsigned()) has_none = op.logic("or", has_none, op.compare("eq", op[1], op.constant(-1)));
  const auto divisor = op.select(has_none, one, op[1]);
  return op.select(has_none, zero, op.binary(op.is_unsigned() ? "urem" : "srem", op[0], divisor));
}

std::string write_fmod(const OpCode& op) {
  return op.is_float() ? op.binary("frem", op[0], op[1]) : integer_remainder(op);
}

std::string write_rem(const OpCode& op) {
  const auto left = write_fmod(op);
  if (op.is_unsigned()) return left;
  const auto zero = op.constant(0);
  const std::string_view less = op.is_float() ? "olt" : "slt";
  const auto differs = op.logic("xor", op.compare(less, op[1], zero), op.compare(less, left, zero));
  const auto adds = op.logic("and", op.compare(op.is_float() ? "une" : "ne", left, zero), differs);
  return op.select(adds, op.binary(op.is_float() ? "fadd" : "add", left, op[1]), left);
}

std::string write_trunc_div(const OpCode& op) {
  if (!op.is_float()) return integer_quotient(op);
  return op.intrinsic("llvm.trunc", {op.binary("fdiv", op[0], op[1])});
}

// c10::div_floor_floating, branch by branch.
std::string float_floor_div(const OpCode& op) {
  const auto zero = op.constant(0);
  const auto left = op.binary("frem", op[0], op[1]);
  auto quotient = op.binary("fdiv", op.binary("fsub", op[0], left), op[1]);
  const auto differs = op.logic("xor", op.compare("olt", op[1], zero), op.compare("olt", left, zero));
  const auto lowers = op.logic("and", op.compare("une", left, zero), differs);
  quotient = op.select(lowers, op.binary("fsub", quotient, op.constant(1)), quotient);
  const auto floor = op.intrinsic("llvm.floor", {quotient});
  const auto is_above = op.compare("ogt", op.binary("fsub", quotient, floor), op.constant(0.5));
  const auto rounded = op.select(is_above, op.binary("fadd", floor, op.constant(1)), floor);
  const auto plain = op.binary("fdiv", op[0], op[1]);
  const auto signed_zero = op.intrinsic("llvm.copysign", {zero, plain});
  const auto result = op.select(op.compare("une", quotient, zero), rounded, signed_zero);
  return op.select(op.compare("oeq", op[1], zero), plain, result);
}

std::string write_floor_div(const OpCode& op) {
  if (op.is_float()) return float_floor_div(op);
  const auto quotient = integer_quotient(op);
  if (op.is_unsigned()) return quotient;
  const auto zero = op.constant(0);
  const auto left = integer_remainder(op);
  const auto differs = op.logic("xor", op.compare("slt", op[0], zero), op.compare("slt", op[1], zero));
  const auto lowers = op.logic("and", op.compare("ne", left, zero), differs);
  return op.select(lowers, op.binary("sub", quotient, op.constant(1)), quotient);
}

// The smaller or larger; NaN wins, and of zeros of two signs the first.
std::string write_extreme(const OpCode& op, std::string_view float_less, std::string_view signed_less,
                          std::string_view unsigned_less) {
  if (!op.is_float()) {
    const auto takes_second = op.compare(op.is_unsigned() ? unsigned_less : signed_less, op[1], op[0]);
    return op.select(takes_second, op[1], op[0]);
  }
  const auto takes_second = op.logic("or", op.compare(float_less, op[1], op[0]), op.is_nan(op[1]));
  return op.select(takes_second, op[1], op[0]);
}

std::string write_sign(const OpCode& op) {
  const auto zero = op.constant(0), one = op.constant(1);
  const std::string_view above = op.is_float() ? "ogt" : op.is_unsigned() ? "ugt" : "sgt";
  const auto positive = op.select(op.compare(above, op[0], zero), one, zero);
  if (op.is_unsigned()) return positive;
  return op.select(op.compare(op.is_float() ? "olt" : "slt", op[0], zero), op.constant(-1), positive);
}

std::string write_shift(const OpCode& op, std::string_view instruction, bool keeps_sign) {
  const int bits = static_cast<int>(c10::elementSize(op.dtype())) * 8;
  // Compared as unsigned, a negative number is too large as well.
  const auto is_inside = op.compare("ult", op[1], op.constant(bits));
  const auto by = op.select(is_inside, op[1], op.constant(0));
  const auto outside = keeps_sign ? op.binary("ashr", op[0], op.constant(bits - 1)) : op.constant(0);
  return op.select(is_inside, op.binary(instruction, op[0], by), outside);
}

std::string write_comparison(const OpCode& op, std::string_view for_floats, std::string_view for_integers) {
  if (op.is_float()) return op.compare(for_floats, op[0], op[1]);
  const bool is_order = for_integers != "eq" && for_integers != "ne";
  return op.compare(
      is_order ? fmt::format("{}{}", op.is_unsigned() ? "u" : "s", for_integers) : std::string(for_integers), op[0],
      op[1]);
}

std::string write_sign_bit(const OpCode& op) {
  const std::string bits = fmt::format("i{}", c10::elementSize(op.dtype()) * 8);
  const std::string type = llvm_type(bits, op.call().lanes);
  const auto pattern = op.writer().value("bitcast {} {} to {}", op.type(), op[0], type);
  return op.writer().value("icmp slt {} {}, zeroinitializer", type, pattern);
}

std::string write_not(const OpCode& op) {
  const auto ones = op.dtype() == at::kBool ? op.constant(1) : op.constant(-1);
  return op.binary("xor", op[0], ones);
}

// Text as a parameter of a template.
template <size_t N>
struct Letters {
  constexpr Letters(const char (&from)[N]) { std::copy_n(from, N, text); }  // NOLINT: written as a literal
  char text[N];
};

template <Letters kName>
constexpr Row function_row() {
  const Write write = [](const OpCode& op) { return write_sleef_call(op.writer(), kName.text, op.call()); };
  return {kName.text, kFloats, write, /*is_expensive=*/true, /*sleef=*/kFloats};
}

// A function with an own form for f32.
template <Letters kName, auto kWriteFloat>
constexpr Row inline_row() {
  const Write write = [](const OpCode& op) {
    if (op.dtype() == at::kFloat) return kWriteFloat(op);
    return write_sleef_call(op.writer(), kName.text, op.call());
  };
  return {kName.text, kFloats, write, /*is_expensive=*/true, /*sleef=*/dtype_bit(at::kDouble)};
}

template <Letters kName, Letters kForFloats, Letters kForIntegers>
constexpr Row comparison_row() {
  return {kName.text, kOrdered,
          [](const OpCode& op) { return write_comparison(op, kForFloats.text, kForIntegers.text); }};
}

constexpr Row kRows[] = {
    {"add", kReal, [](const OpCode& op) { return op.binary(op.is_float() ? "fadd contract" : "add", op[0], op[1]); }},
    {"sub", kReal, [](const OpCode& op) { return op.binary(op.is_float() ? "fsub contract" : "sub", op[0], op[1]); }},
    {"mul", kReal, [](const OpCode& op) { return op.binary(op.is_float() ? "fmul contract" : "mul", op[0], op[1]); }},
    {"rounded_mul", kFloats, [](const OpCode& op) { return op.binary("fmul", op[0], op[1]); }},
    {"div", kFloats, [](const OpCode& op) { return op.binary("fdiv", op[0], op[1]); }, true},
    {"trunc_div", kReal, write_trunc_div, true},
    {"floor_div", kReal, write_floor_div, true},
    {"rem", kReal, write_rem, true},
    {"fmod", kReal, write_fmod, true},
    {"pow", kReal,
     [](const OpCode& op) {
       return op.is_float() ? write_sleef_call(op.writer(), "pow", op.call()) : write_integer_power(op);
     },
     true, kFloats},
    {"fma", kFloats,
     [](const OpCode& op) {
       return op.intrinsic("llvm.fma", {op[0], op[1], op[2]});
     }},
    {"neg", kReal,
     [](const OpCode& op) {
       return op.is_float() ? op.writer().value("fneg {} {}", op.type(), op[0])
                            : op.binary("sub", op.constant(0), op[0]);
     }},
    {"abs", kReal,
     [](const OpCode& op) {
       if (op.is_unsigned()) return op[0];
       return op.is_float() ? op.intrinsic("llvm.fabs", {op[0]}) : op.intrinsic("llvm.abs", {op[0]}, "i1 false");
     }},
    {"sign", kReal, write_sign},
    {"min", kOrdered, [](const OpCode& op) { return write_extreme(op, "olt", "slt", "ult"); }},
    {"max", kOrdered, [](const OpCode& op) { return write_extreme(op, "ogt", "sgt", "ugt"); }},
    {"sqrt", kFloats, [](const OpCode& op) { return op.intrinsic("llvm.sqrt", {op[0]}); }, true},
    {"rsqrt", kFloats,
     [](const OpCode& op) { return op.binary("fdiv", op.constant(1), op.intrinsic("llvm.sqrt", {op[0]})); }, true},
    inline_row<"exp", write_exp>(),
    function_row<"exp2">(),
    function_row<"expm1">(),
    function_row<"log">(),
    function_row<"log2">(),
    function_row<"log10">(),
    function_row<"log1p">(),
    function_row<"sin">(),
    function_row<"cos">(),
    function_row<"tan">(),
    function_row<"asin">(),
    function_row<"acos">(),
    function_row<"atan">(),
    {"sinh", kFloats, write_sinh, true, kFloats},
    {"cosh", kFloats, write_cosh, true, kFloats},
    inline_row<"tanh", write_tanh>(),
    {"asinh", kFloats, write_asinh, true, kFloats},
    {"acosh", kFloats, write_acosh, true, kFloats},
    function_row<"atanh">(),
    function_row<"atan2">(),
    function_row<"hypot">(),
    inline_row<"erf", write_erf>(),
    function_row<"erfc">(),
    {"erfinv", kFloats, write_erfinv, true, kFloats},
    {"digamma", kFloats, write_digamma, true, kFloats},
    function_row<"lgamma">(),
    {"floor", kFloats, [](const OpCode& op) { return op.intrinsic("llvm.floor", {op[0]}); }},
    {"ceil", kFloats, [](const OpCode& op) { return op.intrinsic("llvm.ceil", {op[0]}); }},
    {"trunc", kFloats, [](const OpCode& op) { return op.intrinsic("llvm.trunc", {op[0]}); }},
    {"round", kFloats, [](const OpCode& op) { return op.intrinsic("llvm.nearbyint", {op[0]}); }},
    comparison_row<"eq", "oeq", "eq">(),
    comparison_row<"ne", "une", "ne">(),
    comparison_row<"lt", "olt", "lt">(),
    comparison_row<"le", "ole", "le">(),
    comparison_row<"gt", "ogt", "gt">(),
    comparison_row<"ge", "oge", "ge">(),
    {"is_nan", kFloats, [](const OpCode& op) { return op.is_nan(op[0]); }},
    {"is_inf", kFloats,
     [](const OpCode& op) { return op.compare("oeq", op.intrinsic("llvm.fabs", {op[0]}), op.constant(INFINITY)); }},
    {"is_finite", kFloats,
     [](const OpCode& op) { return op.compare("olt", op.intrinsic("llvm.fabs", {op[0]}), op.constant(INFINITY)); }},
    {"sign_bit", kFloats, write_sign_bit},
    {"copysign", kFloats,
     [](const OpCode& op) {
       return op.intrinsic("llvm.copysign", {op[0], op[1]});
     }},
    {"and", kIntegers | kBools, [](const OpCode& op) { return op.binary("and", op[0], op[1]); }},
    {"or", kIntegers | kBools, [](const OpCode& op) { return op.binary("or", op[0], op[1]); }},
    {"xor", kIntegers | kBools, [](const OpCode& op) { return op.binary("xor", op[0], op[1]); }},
    {"not", kIntegers | kBools, write_not},
    {"shift_left", kIntegers, [](const OpCode& op) { return write_shift(op, "shl", false); }},
    {"shift_right", kIntegers,
     [](const OpCode& op) { return write_shift(op, op.is_unsigned() ? "lshr" : "ashr", !op.is_unsigned()); }},
    {"select", kOrdered, [](const OpCode& op) { return op.select(op[0], op[1], op[2]); }},
    {"cast", kOrdered | kHalves,
     [](const OpCode& op) {
       const ScalarCall& call = op.call();
       return write_cast(op.writer(), call.operand, call.result, call.operands[0], call.lanes);
     }},
};

const Row* find_row(std::string_view name) {
  const auto* row = std::ranges::find(kRows, name, &Row::name);
  return row == std::end(kRows) ? nullptr : row;
}

}  // namespace

bool has_scalar_code(const ScalarOp& op, at::ScalarType operand, const CodeTarget& target) {
  const Row* row = find_row(op.name);
  if (row == nullptr || !has_dtype(row->dtypes, operand)) return false;
  return !has_dtype(row->sleef, operand) || target.has_sleef;
}

bool is_expensive(const ScalarOp& op) {
  const Row* row = find_row(op.name);
  return row != nullptr && row->is_expensive;
}

bool is_call(const ScalarOp& op, at::ScalarType operand) {
  const Row* row = find_row(op.name);
  return row != nullptr && has_dtype(row->sleef, operand);
}

std::string write_scalar_op(LlvmWriter& writer, const ScalarCall& call) {
  const Row* row = find_row(call.op->name);
  DIPTYCH_ASSERT(row != nullptr, "no code for the operation {}; codegen_problem() lets none through", call.op->name);
  return row->write(OpCode(writer, call));
}

std::string constant_text(const KernelNumber& number, at::ScalarType dtype) {
  if (const auto* integer = std::get_if<int64_t>(&number.number)) {
    if (dtype == at::kBool) return *integer != 0 ? "true" : "false";
    // LLVM reads an i8 of 200 as it reads one of -56.
    return dtype == at::kByte ? fmt::format("{}", static_cast<int8_t>(*integer)) : fmt::format("{}", *integer);
  }
  // A float's text is that of the double that equals it.
  return fmt::format("0x{:016X}", std::bit_cast<uint64_t>(std::get<double>(number.number)));
}

}  // namespace diptych::detail
