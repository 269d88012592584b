#include "samples/cases.h"

#include <map>

namespace diptych::testing {
namespace {

using enum OperandKind;
using Names = std::vector<std::string>;
using Arguments = std::vector<Argument>;

constexpr DtypeSet kInexact = kFloats | kHalves, kAllDtypes = kBools | kRealNumbers | kHalves;

// Each operator on the same operands.
void add(std::vector<OperatorCase>& cases, const Names& ops, const Arguments& arguments, DtypeSet dtypes = kAllDtypes) {
  for (const std::string& op : ops) cases.push_back({"aten." + op, arguments, dtypes});
}

// Numbers at which formulas go wrong.
at::Tensor special_numbers(at::ScalarType dtype) {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  if (has_dtype(kComplexes, dtype)) {
    const at::Tensor parts = at::tensor({0.5, -0.25, 1., 0.001, -1.5, 2.5, -3., 4., -0.75, 0., 1.}, at::kDouble);
    return at::complex(parts, parts.roll(3)).to(dtype);
  }
  if (!at::isFloatingType(dtype))
    return at::tensor({0, 1, 2, 3, 7, 100, 5, 250, -1, -7, -100, 12}, at::kLong).to(dtype);
  return at::tensor({0., -0.,   1.,    -1.,  0.5, -0.5, 2.5,  -2.5,  1.5,  -3.5,  3.,  -3.,
                     6., 0.001, -0.25, 0.75, 7.,  40.,  -40., 1e-41, kInf, -kInf, kNan},
                    at::kDouble)
      .to(dtype);
}

std::vector<int64_t> sizes_of(OperandKind kind, const CaseSizes& s) {
  switch (kind) {
    case kRows:
    case kTurned:
    case kShare:
      return {s.a, 1};
    case kColumns:
    case kMask:
      return {1, s.c};
    case kBlock:
    case kBlock2:
      return {s.a, s.b(), s.c};
    case kSpecial:
    case kPlane:
      return {s.a, s.c};
    case kSlab:
    case kIndices:
      return {s.a, s.half, s.c};
    case kScalar:
      return {};
    case kPlaces:
    case kRow:
      return {s.c};
    case kClasses:
      return {s.a};
    case kAdded:
      return {s.c, s.c};
  }
  return {};
}

// So that operands of the same sizes differ.
double shift_of(OperandKind kind) {
  if (kind == kSlab || kind == kPlane) return 2;
  return kind == kBlock2 || kind == kScalar || kind == kTurned || kind == kColumns ? 1 : 0;
}

}  // namespace

at::Tensor plain_sample(OperandKind kind, at::ScalarType dtype, const CaseSizes& sizes) {
  const std::vector<int64_t> shape = sizes_of(kind, sizes);
  const at::Tensor counted = at::arange(c10::multiply_integers(shape), at::kDouble).reshape(shape);
  if (kind == kPlaces || kind == kIndices || kind == kClasses) {
    const int64_t end = kind == kClasses ? sizes.c : sizes.a;
    return counted.mul(7).add(3).to(at::kLong).remainder(std::max<int64_t>(end, 1));
  }
  const at::Tensor numbers = counted.mul(0.37).add(shift_of(kind)).cos();
  if (kind == kMask) return numbers.gt(0);
  if (has_dtype(kComplexes, dtype)) return at::complex(numbers, numbers.mul(5).sin()).to(dtype);
  if (!at::isFloatingType(dtype)) return numbers.mul(9).round().abs().to(dtype);
  return (kind == kShare ? numbers.abs() : numbers).to(dtype);
}

namespace {

// An operand with numbers at which formulas go wrong.
at::Tensor special_sample(OperandKind kind, at::ScalarType dtype) {
  const at::Tensor along = special_numbers(dtype);
  switch (kind) {
    case kRows:
      return along.unsqueeze(1);
    case kColumns:
      return along.unsqueeze(0);
    case kTurned:
      return along.roll(5).unsqueeze(1);
    case kMask:
      return (along.is_complex() ? at::real(along) : along).gt(0).unsqueeze(0);
    case kShare:
      return plain_sample(kind, dtype, {.a = along.size(0)});
    case kSpecial:
      return at::cat({along, along.flip(0), along}).slice(0, 0, 24).reshape({4, 6});
    default:
      return plain_sample(kind, dtype);
  }
}

using Known = std::map<OperandKind, at::Tensor>;

// Samples of a dtype share their operands, so that programs of several have few inputs.
test::OpSample sample_of(const OperatorCase& c, at::ScalarType dtype, Known& known) {
  const auto tensor_of = [&](OperandKind kind) {
    const auto [found, is_new] = known.try_emplace(kind);
    if (is_new) found->second = special_sample(kind, dtype);
    return found->second;
  };
  std::vector<c10::IValue> arguments;
  for (const Argument& argument : c.arguments) {
    if (const auto* kind = std::get_if<OperandKind>(&argument)) arguments.emplace_back(tensor_of(*kind));
    if (const auto* list = std::get_if<std::vector<OperandKind>>(&argument)) {
      std::vector<at::Tensor> tensors;
      for (const OperandKind kind : *list) tensors.push_back(tensor_of(kind));
      arguments.emplace_back(tensors);
    }
    const auto* operand = std::get_if<Operand>(&argument);
    if (operand == nullptr) continue;
    const auto* number = std::get_if<WrappedNumber>(operand);
    arguments.push_back(number ? c10::IValue(wrapped_tensor(*number)) : std::get<c10::IValue>(*operand));
  }
  test::OpSample sample = test::sample(c.op, std::move(arguments), "special numbers");
  sample.may_be_refused = true;
  return sample;
}

}  // namespace

test::Samples samples_of(const std::vector<OperatorCase>& cases) {
  test::Samples samples;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool, at::kComplexFloat, at::kComplexDouble}) {
    Known known;
    for (const OperatorCase& c : cases) {
      if (has_dtype(c.dtypes | kComplexes, dtype)) samples.push_back(sample_of(c, dtype, known));
    }
  }
  return samples;
}

std::vector<OperatorCase> complex_cases() {
  std::vector<OperatorCase> cases;
  add(cases, {"_conj", "_conj_physical", "conj_physical", "resolve_conj", "_neg_view", "resolve_neg", "real", "angle"},
      {kRows});
  add(cases, {"imag"}, {kRows}, 0);
  add(cases, {"complex", "polar"}, {kBlock, kBlock2}, kFloats);
  const Argument number = number_of(c10::complex<double>(0.5, -2));
  add(cases,
      {"add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar", "div.Scalar", "fill.Scalar", "eq.Scalar", "ne.Scalar",
       "pow.Tensor_Scalar"},
      {kRows, number}, kFloats | kHalves);
  add(cases, {"add.Tensor", "sub.Tensor"}, {kRows, kColumns, number}, 0);
  add(cases, {"masked_fill.Scalar"}, {kRows, kMask, number}, 0);
  add(cases, {"where.Scalar"}, {kMask, number, number_of(2)}, kFloats);
  add(cases, {"scalar_tensor"}, {number, constant_of(at::kComplexDouble)}, 0);
  add(cases, {"zeros", "ones"}, {list_of({2, 3}), constant_of(at::kComplexFloat)}, 0);
  add(cases, {"eye"}, {constant_of(int64_t{3}), constant_of(at::kComplexFloat)}, 0);
  add(cases, {"eye.m"}, {constant_of(int64_t{3}), constant_of(int64_t{4}), constant_of(at::kComplexFloat)}, 0);
  return cases;
}

std::vector<OperatorCase> pointwise_cases() {
  std::vector<OperatorCase> cases;
  add(cases, {"neg",         "abs",         "sign",  "sgn",          "reciprocal", "floor",
              "ceil",        "trunc",       "round", "frac",         "sqrt",       "rsqrt",
              "exp",         "exp2",        "expm1", "log",          "log2",       "log10",
              "log1p",       "sin",         "cos",   "tan",          "asin",       "acos",
              "atan",        "sinh",        "cosh",  "tanh",         "asinh",      "acosh",
              "atanh",       "erf",         "erfc",  "erfinv",       "lgamma",     "digamma",
              "deg2rad",     "rad2deg",     "sinc",  "special_entr", "logit",      "nan_to_num",
              "logical_not", "bitwise_not", "isnan", "isinf",        "isfinite",   "isposinf",
              "isneginf",    "signbit",     "clone", "alias",        "detach",     "lift_fresh_copy",
              "lift_fresh",  "contiguous"},
      {kRows});
  add(cases,
      {"add.Tensor",
       "sub.Tensor",
       "rsub.Tensor",
       "mul.Tensor",
       "div.Tensor",
       "minimum",
       "maximum",
       "fmin",
       "fmax",
       "atan2",
       "hypot",
       "logaddexp",
       "logaddexp2",
       "xlogy.Tensor",
       "special_xlog1py",
       "heaviside",
       "copysign.Tensor",
       "eq.Tensor",
       "ne.Tensor",
       "lt.Tensor",
       "le.Tensor",
       "gt.Tensor",
       "ge.Tensor",
       "logical_and",
       "logical_or",
       "logical_xor",
       "bitwise_and.Tensor",
       "bitwise_or.Tensor",
       "bitwise_xor.Tensor",
       "pow.Tensor_Tensor",
       "clamp_min.Tensor",
       "clamp_max.Tensor"},
      {kRows, kColumns});
  add(cases, {"copy", "fill.Tensor"}, {kTurned, kScalar});
  add(cases, {"copy"}, {kTurned, kTurned});
  add(cases, {"add.Tensor", "sub.Tensor", "rsub.Tensor"}, {kRows, kColumns, number_of(3)});
  add(cases, {"add.Tensor", "sub.Tensor"}, {kRows, kColumns, number_of(0.3)});
  add(cases, {"add.Tensor", "mul.Tensor", "sub.Tensor", "div.Tensor", "maximum", "lt.Tensor", "eq.Tensor"},
      {kRows, kScalar});
  add(cases, {"add.Tensor", "mul.Tensor", "sub.Tensor", "div.Tensor", "lt.Tensor", "eq.Tensor", "minimum"},
      {kRows, wrapped(0.3)});
  add(cases, {"add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar", "div.Scalar", "copysign.Scalar", "fill.Scalar"},
      {kRows, number_of(-3)});
  add(cases,
      {"add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar", "div.Scalar", "xlogy.Scalar_Other", "fill.Scalar"},
      {kRows, number_of(0.7)});
  add(cases, {"xlogy.Scalar_Self"}, {number_of(0.7), kRows});
  add(cases, {"eq.Scalar", "ne.Scalar", "lt.Scalar", "le.Scalar", "gt.Scalar", "ge.Scalar"}, {kRows, number_of(0.75)});
  add(cases, {"eq.Scalar", "lt.Scalar", "ge.Scalar"}, {kRows, number_of(0.1)});
  add(cases, {"eq.Scalar", "lt.Scalar", "bitwise_and.Scalar", "bitwise_or.Scalar", "bitwise_xor.Scalar"},
      {kRows, number_of(5)});
  add(cases, {"bitwise_and.Scalar_Tensor", "bitwise_or.Scalar_Tensor", "bitwise_xor.Scalar_Tensor"},
      {number_of(5), kRows});
  add(cases, {"bitwise_left_shift.Tensor", "bitwise_right_shift.Tensor", "__lshift__.Tensor", "__rshift__.Tensor"},
      {kRows, kColumns});
  add(cases,
      {"bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar", "__lshift__.Scalar",
       "__rshift__.Scalar"},
      {kRows, number_of(3)});
  add(cases, {"bitwise_left_shift.Scalar_Tensor", "bitwise_right_shift.Scalar_Tensor"}, {number_of(100), kRows});
  for (const char* const mode : {"floor", "trunc"}) {
    add(cases, {"div.Tensor_mode"}, {kRows, kColumns, constant_of(mode)});
    add(cases, {"div.Scalar_mode"}, {kRows, number_of(3), constant_of(mode)});
    add(cases, {"div.Tensor_mode"}, {kRows, wrapped(3), constant_of(mode)});
  }
  add(cases, {"div.Tensor_mode"}, {kRows, kColumns, nothing()});
  add(cases, {"floor_divide"}, {kRows, kColumns});
  add(cases, {"fmod.Tensor", "remainder.Tensor"}, {kRows, kColumns});
  add(cases, {"floor_divide"}, {kRows, wrapped(3)});
  add(cases, {"remainder.Tensor"}, {kRows, wrapped(3)});
  add(cases, {"floor_divide.Scalar"}, {kRows, number_of(3)});
  add(cases, {"fmod.Scalar", "remainder.Scalar"}, {kRows, number_of(3)});
  add(cases, {"floor_divide.Scalar"}, {kRows, number_of(0.3)});
  add(cases, {"fmod.Scalar", "remainder.Scalar"}, {kRows, number_of(0.3)});
  add(cases, {"remainder.Scalar_Tensor"}, {number_of(7), kRows});
  for (const double exponent : {0., 1., 2., 3., -1., -2., 0.5, -0.5, 1.7}) {
    add(cases, {"pow.Tensor_Scalar"}, {kRows, number_of(exponent)});
  }
  for (const int exponent : {0, 1, 2, 3, 5, 12, 63, 200, -1})
    add(cases, {"pow.Tensor_Scalar"}, {kRows, number_of(exponent)});
  for (const double base : {1., 2., 0.3}) add(cases, {"pow.Scalar"}, {number_of(base), kRows});
  add(cases, {"pow.Scalar"}, {number_of(3), kRows});
  add(cases, {"clamp"}, {kRows, number_of(-1.0), number_of(2.5)});
  add(cases, {"hardtanh"}, {kRows, number_of(-1.0), number_of(2.5)});
  add(cases, {"clamp"}, {kRows, nothing(), number_of(2)});
  add(cases, {"clamp"}, {kRows, number_of(2), nothing()});
  add(cases, {"clamp.Tensor"}, {kRows, kColumns, kScalar});
  add(cases, {"clamp_min", "clamp_max"}, {kRows, number_of(0.5)});
  add(cases, {"where.self"}, {kMask, kRows, kTurned});
  add(cases, {"where.ScalarOther"}, {kMask, kRows, number_of(0.1)});
  add(cases, {"where.ScalarSelf"}, {kMask, number_of(0.1), kRows});
  add(cases, {"where.Scalar"}, {kMask, number_of(0.1), number_of(2)});
  add(cases, {"masked_fill.Scalar"}, {kRows, kMask, number_of(2)});
  add(cases, {"masked_fill.Tensor"}, {kRows, kMask, kScalar});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kBool})
    add(cases, {"_to_copy"}, {kRows, constant_of(dtype)});
  for (const auto dtype : {at::kLong, at::kInt, at::kByte, at::kChar, at::kShort})
    add(cases, {"_to_copy"}, {kBlock, constant_of(dtype)});
  add(cases, {"addcmul", "addcdiv"}, {kRows, kColumns, kTurned});
  add(cases, {"addcmul", "addcdiv"}, {kRows, kColumns, kTurned, number_of(3)});
  for (const double weight : {0.0, 0.3, 0.8, 1.0}) add(cases, {"lerp.Scalar"}, {kRows, kColumns, number_of(weight)});
  add(cases, {"lerp.Tensor"}, {kRows, kColumns, kShare});
  add(cases, {"logit"}, {kShare, number_of(0.1)});
  add(cases, {"logit_backward"}, {kShare, kRows, number_of(0.1)});
  add(cases, {"logit_backward"}, {kShare, kRows});
  add(cases, {"nan_to_num"}, {kRows, number_of(1.5), number_of(7.0), number_of(-7.0)});
  return cases;
}

std::vector<OperatorCase> activation_cases() {
  std::vector<OperatorCase> cases;
  add(cases,
      {"relu", "gelu", "silu", "mish", "hardswish", "hardsigmoid", "sigmoid", "log_sigmoid_forward", "leaky_relu",
       "elu", "celu", "softplus", "hardshrink", "softshrink"},
      {kRows});
  add(cases, {"gelu"}, {kRows, constant_of("tanh")});
  add(cases, {"threshold"}, {kRows, number_of(0.6), number_of(-2.0)});
  add(cases, {"leaky_relu"}, {kRows, number_of(0.3)});
  add(cases, {"elu"}, {kRows, number_of(1.5), number_of(0.8), number_of(2.0)});
  add(cases, {"celu", "hardshrink", "softshrink"}, {kRows, number_of(1.3)});
  add(cases, {"softplus"}, {kRows, number_of(2.0), number_of(4.0)});
  add(cases, {"_prelu_kernel"}, {kRows, kColumns});
  add(cases, {"threshold_backward"}, {kColumns, kRows, number_of(0.5)});
  add(cases,
      {"tanh_backward", "sigmoid_backward", "silu_backward", "mish_backward", "gelu_backward", "hardsigmoid_backward",
       "hardswish_backward"},
      {kTurned, kRows});
  add(cases, {"gelu_backward"}, {kTurned, kRows, constant_of("tanh")});
  add(cases, {"leaky_relu_backward"}, {kTurned, kRows, number_of(0.3), constant_of(false)});
  for (const bool is_result : {false, true}) {
    add(cases, {"elu_backward"},
        {kTurned, number_of(1.5), number_of(0.8), number_of(2.0), constant_of(is_result), kRows});
  }
  add(cases, {"hardtanh_backward"}, {kTurned, kRows, number_of(-1.0), number_of(2.5)});
  add(cases, {"softplus_backward"}, {kTurned, kRows, number_of(2.0), number_of(4.0)});
  // Its third operand follows from the second: pointwise_calls has such, this one is for sizes alone.
  add(cases, {"log_sigmoid_backward"}, {kTurned, kRows, kShare}, 0);
  add(cases, {"hardshrink_backward", "softshrink_backward"}, {kTurned, kRows, number_of(0.6)});
  add(cases, {"_prelu_kernel_backward"}, {kTurned, kRows, kShare});
  add(cases, {"native_dropout_backward"}, {kColumns, kMask, number_of(1.25)}, kInexact);
  for (const int64_t reduction : {0, 1, 2}) {
    // Of integers these divide by zero, which ends the process.
    add(cases, {"mse_loss_backward"}, {kScalar, kBlock, kBlock2, constant_of(reduction)}, kInexact);
    add(cases, {"smooth_l1_loss_backward"}, {kScalar, kBlock, kBlock2, constant_of(reduction), constant_of(0.7)},
        kInexact);
  }
  return cases;
}

std::vector<OperatorCase> reduction_cases() {
  std::vector<OperatorCase> cases;
  const Argument keep = constant_of(true), drop = constant_of(false), middle = list_of({1}), outer = list_of({0, -1});
  for (const OperandKind sample : {kBlock, kSpecial}) {
    add(cases, {"sum", "mean", "prod", "max", "min", "any", "all", "aminmax", "argmax", "argmin", "amax", "amin"},
        {sample});
    add(cases, {"sum.dim_IntList", "mean.dim", "amax", "amin", "any.dims", "all.dims"}, {sample, middle, keep});
    add(cases, {"sum.dim_IntList", "mean.dim", "amax", "amin", "any.dims", "all.dims"}, {sample, outer, drop});
    add(cases, {"prod.dim_int", "max.dim", "min.dim", "argmax", "argmin", "any.dim", "all.dim"},
        {sample, constant_of(int64_t{1}), keep});
    add(cases, {"prod.dim_int", "max.dim", "min.dim", "argmax", "argmin", "any.dim", "all.dim"},
        {sample, constant_of(int64_t{0}), drop});
    add(cases, {"count_nonzero"}, {sample});
    add(cases, {"count_nonzero", "aminmax"}, {sample, constant_of(int64_t{1})});
    add(cases, {"count_nonzero.dim_IntList"}, {sample, outer});
    add(cases, {"logsumexp"}, {sample, middle, drop});
    add(cases, {"logsumexp"}, {sample, outer, keep});
  }
  add(cases, {"argmax", "argmin", "amax", "sum", "var.correction"}, {kScalar});
  add(cases, {"sum.dim_IntList", "mean.dim"}, {kBlock, nothing(), keep});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kInt}) {
    add(cases, {"sum"}, {kBlock, constant_of(dtype)});
    add(cases, {"sum.dim_IntList"}, {kBlock, middle, drop, constant_of(dtype)});
    add(cases, {"prod.dim_int"}, {kBlock, constant_of(int64_t{1}), drop, constant_of(dtype)});
  }
  add(cases, {"mean.dim"}, {kBlock, middle, drop, constant_of(at::kDouble)});
  const Names variances = {"var.correction", "std.correction", "var_mean.correction", "std_mean.correction"};
  add(cases, variances, {kBlock});
  add(cases, variances, {kBlock, middle, number_of(0), keep});
  add(cases, variances, {kBlock, outer, number_of(2), drop});
  add(cases, {"var.correction"}, {kBlock, middle, number_of(4), drop});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double order : {0., 1., 2., 3., 0.5, kInf, -kInf}) {
    add(cases, {"linalg_vector_norm"}, {kBlock, number_of(order)});
    add(cases, {"linalg_vector_norm"}, {kBlock, number_of(order), middle, keep});
  }
  return cases;
}

std::vector<OperatorCase> moving_cases(const CaseSizes& s) {
  std::vector<OperatorCase> cases;
  const Argument sizes = list_of({s.a, s.b(), s.c}), whole = list_of({s.a * s.b(), s.c}), dim = constant_of(int64_t{1});
  const auto integer = [](int64_t value) { return constant_of(value); };
  add(cases, {"view", "_unsafe_view", "reshape", "view_copy"}, {kBlock, list_of({2 * s.a, s.half * s.c})});
  add(cases, {"view", "_unsafe_view", "reshape", "view_copy"}, {kBlock, whole});
  add(cases, {"view", "reshape"}, {kBlock, list_of({s.a, 2, 1, s.half, s.c})});
  add(cases, {"_reshape_alias"}, {kBlock, whole, list_of({s.c, 1})});
  add(cases, {"flatten.using_ints"}, {kBlock, integer(0), integer(1)});
  add(cases, {"expand"}, {kScalar, sizes});
  add(cases, {"unsqueeze"}, {kBlock, integer(-2)});
  add(cases, {"squeeze"}, {kRows});
  add(cases, {"squeeze.dim"}, {kRows, integer(1)});
  add(cases, {"squeeze.dims"}, {kRows, list_of({0, 1})});
  add(cases, {"permute"}, {kBlock, list_of({2, 0, 1})});
  add(cases, {"transpose.int"}, {kBlock, integer(0), integer(-1)});
  add(cases, {"t"}, {kPlane});
  add(cases, {"full"}, {sizes, number_of(2.5)});
  add(cases, {"full"}, {sizes, number_of(7), constant_of(at::kHalf)});
  add(cases, {"full_like"}, {kBlock, number_of(3)});
  add(cases, {"new_full"}, {kBlock, list_of({2, 2}), number_of(3)});
  add(cases, {"scalar_tensor"}, {number_of(2.5)});
  add(cases, {"zeros", "ones"}, {sizes, constant_of(at::kLong)});
  add(cases, {"zeros_like", "ones_like", "zero"}, {kBlock});
  add(cases, {"new_zeros", "new_ones"}, {kBlock, list_of({2, 3})});
  add(cases, {"arange"}, {number_of(s.c + 2)});
  add(cases, {"arange"}, {number_of(3.5)});
  add(cases, {"arange.start"}, {number_of(2), number_of(s.c + 4), constant_of(at::kBFloat16)});
  add(cases, {"arange.start_step"}, {number_of(1), number_of(9), number_of(3), constant_of(at::kInt)});
  add(cases, {"arange.start_step"}, {number_of(0.5), number_of(-2.0), number_of(-0.3)});
  add(cases, {"eye"}, {integer(s.b())});
  add(cases, {"eye.m"}, {integer(s.a), integer(s.b()), constant_of(at::kLong)});
  for (const int64_t diagonal : {-1, 0, 2}) add(cases, {"tril", "triu"}, {kBlock, integer(diagonal)});
  add(cases, {"slice.Tensor"}, {kBlock, dim, integer(1), integer(1 + s.half)});
  add(cases, {"slice.Tensor"}, {kBlock, integer(-1), integer(-4), nothing(), integer(2)});
  add(cases, {"select.int"}, {kBlock, dim, integer(-1)});
  add(cases, {"flip"}, {kBlock, list_of({0, -1})});
  for (const int64_t shift : {2, -1, 0, 7}) add(cases, {"roll"}, {kBlock, list_of({shift}), list_of({1})});
  add(cases, {"roll"}, {kBlock, list_of({1, 2}), list_of({1, 0})});
  add(cases, {"constant_pad_nd"}, {kBlock, list_of({1, 2, 0, 3}), number_of(1.5)});
  add(cases, {"constant_pad_nd"}, {kBlock, list_of({-1, 2, 1, -2})});
  add(cases, {"cat"}, {std::vector<OperandKind>{kBlock, kSlab, kBlock2}, dim});
  add(cases, {"cat"}, {std::vector<OperandKind>{kBlock, kBlock}, integer(-1)});
  add(cases, {"stack"}, {std::vector<OperandKind>{kBlock, kBlock2, kBlock}, dim});
  add(cases, {"repeat"}, {kSlab, list_of({2, 1, 3})});
  add(cases, {"repeat"}, {kPlane, list_of({2, 3, 1})});
  add(cases, {"linspace"}, {number_of(-1.5), number_of(2.0), integer(s.c + 2)});
  add(cases, {"linspace"}, {number_of(-1), number_of(2), integer(1), constant_of(at::kDouble)});
  add(cases, {"glu"}, {kBlock, dim});
  add(cases, {"glu_backward"}, {kSlab, kBlock, dim});
  add(cases, {"slice_backward"}, {kSlab, sizes, dim, integer(1), integer(1 + s.half), integer(1)});
  add(cases, {"slice_backward"}, {kSlab, sizes, dim, integer(0), integer(s.b()), integer(2)});
  add(cases, {"select_backward"}, {kPlane, sizes, dim, integer(-2)});
  add(cases, {"slice_scatter"}, {kBlock, kSlab, dim, integer(1), integer(1 + s.half)});
  add(cases, {"slice_scatter"}, {kBlock, kSlab, dim, integer(0), nothing(), integer(2)});
  add(cases, {"select_scatter"}, {kBlock, kPlane, dim, integer(1)});
  return cases;
}

std::vector<OperatorCase> indexing_cases(const CaseSizes& s) {
  std::vector<OperatorCase> cases;
  const Argument first = constant_of(int64_t{0}), places = std::vector<OperandKind>{kPlaces};
  add(cases, {"gather"}, {kBlock, first, kIndices});
  add(cases, {"index_select"}, {kBlock, first, kPlaces});
  add(cases, {"embedding"}, {kPlane, kPlaces});
  add(cases, {"index.Tensor"}, {kBlock, places});
  add(cases, {"index_add"}, {kPlane, first, kPlaces, kAdded});
  add(cases, {"scatter_add"}, {kBlock, first, kIndices, kSlab});
  add(cases, {"index_put"}, {kPlane, places, kAdded, constant_of(true)});
  add(cases, {"embedding_dense_backward"},
      {kAdded, kPlaces, constant_of(s.a), constant_of(int64_t{-1}), constant_of(false)});
  return cases;
}

std::vector<OperatorCase> composite_cases(const CaseSizes& s) {
  std::vector<OperatorCase> cases;
  const Argument none = nothing(), small = number_of(1e-5);
  const auto integer = [](int64_t value) { return constant_of(value); };
  for (const int64_t dim : {0, 1, -1})
    add(cases, {"_softmax", "_log_softmax"}, {kBlock, integer(dim), constant_of(false)});
  add(cases, {"native_layer_norm"}, {kBlock, list_of({s.c}), kRow, kRow, small});
  add(cases, {"native_layer_norm"}, {kBlock, list_of({s.b(), s.c}), none, none, small});
  add(cases, {"native_batch_norm"}, {kPlane, kRow, kRow, none, none, constant_of(true), number_of(0.1), small});
  add(cases, {"native_batch_norm"}, {kBlock, none, none, none, none, constant_of(true), number_of(0.1), small});
  for (const int64_t reduction : {0, 1, 2}) {
    const Argument how = integer(reduction);
    add(cases, {"mse_loss", "smooth_l1_loss", "huber_loss"}, {kBlock, kBlock2, how});
    add(cases, {"binary_cross_entropy"}, {kShare, kShare, none, how});
    add(cases, {"nll_loss_forward"}, {kPlane, kClasses, none, how, integer(-100)});
    add(cases, {"nll_loss_forward"}, {kPlane, kClasses, kRow, how, integer(1)});
  }
  return cases;
}

}  // namespace diptych::testing
