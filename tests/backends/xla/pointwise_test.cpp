// Elementwise operators beside eager: dtypes, promotion, special values.
#include <algorithm>

#include "backends/xla/xla_check.h"

namespace diptych {
namespace {

using testing::kInf;
using testing::kNan;
using testing::XlaCheck;
using Names = std::vector<std::string>;

const std::vector<at::ScalarType> kFloatDtypes = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16};
const std::vector<at::ScalarType> kWholes = {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool};

// Numbers at which formulas go wrong, in two orders so that pairs of them meet.
at::Tensor specials(at::ScalarType dtype) {
  return at::tensor(
             {0., -0., 1., -1., 0.5, -0.5, 2.5, -2.5, 1.5, -3.5, 0.001, -0.25, 0.75, 7., 40., -40., kInf, -kInf, kNan},
             at::kDouble)
      .to(dtype);
}
at::Tensor wholes(at::ScalarType dtype) {
  return at::tensor({0, 1, 2, 3, 7, 100, 5, 250, -1, -7, -100, 12}, at::kLong).to(dtype);
}
at::Tensor samples(at::ScalarType dtype) {
  if (at::isComplexType(dtype)) return at::complex(at::linspace(-2.3, 2.1, 7), at::linspace(1.7, -1.4, 7)).to(dtype);
  return at::isFloatingType(dtype) ? specials(dtype) : wholes(dtype);
}
// All pairs.
std::pair<at::Tensor, at::Tensor> pairs(const at::Tensor& x) { return {x.unsqueeze(1), x.unsqueeze(0)}; }

// Whether eager has no such operator for the dtypes of its operands.
bool is_refusal_of_dtypes(const std::string& message) {
  const Names phrases = {"not implemented for", "not supported", "unsupported",
                         "only support",        "expected",      "negative integer powers"};
  return std::any_of(phrases.begin(), phrases.end(),
                     [&](const std::string& phrase) { return message.find(phrase) != std::string::npos; });
}

// Adds each operator to one program, which compiles sooner than one each; those that eager refuses for these dtypes are
// left out.
void expect_all(const Names& ops, const std::vector<Operand>& rest, const std::vector<at::Tensor>& tensors,
                bool numbers_first = false) {
  XlaCheck check;
  std::vector<Operand> operands;
  for (const auto& tensor : tensors) operands.emplace_back(check.input(tensor));
  operands.insert(numbers_first ? operands.begin() : operands.end(), rest.begin(), rest.end());
  std::vector<Value> outputs;
  std::string refusal;
  for (const auto& op : ops) {
    try {
      for (const Value value : check.nodes(op, operands)) outputs.push_back(value);
    } catch (const c10::Error& error) {
      refusal = error.what_without_backtrace();
      ASSERT_TRUE(is_refusal_of_dtypes(refusal)) << op << ": " << refusal;
    }
  }
  ASSERT_FALSE(outputs.empty()) << ops[0] << ": " << refusal;
  check.expect_eager(outputs);
}
void expect_one(const std::string& op, const std::vector<at::Tensor>& tensors, const std::vector<Operand>& rest = {},
                bool numbers_first = false) {
  expect_all({op}, rest, tensors, numbers_first);
}

const Names kUnary = {
    "aten.tanh",       "aten.exp",         "aten.expm1",        "aten.log",          "aten.log1p",
    "aten.sqrt",       "aten.rsqrt",       "aten.sin",          "aten.cos",          "aten.tan",
    "aten.sigmoid",    "aten.exp2",        "aten.special_exp2", "aten.log2",         "aten.log10",
    "aten.reciprocal", "aten.asin",        "aten.acos",         "aten.atan",         "aten.sinh",
    "aten.cosh",       "aten.asinh",       "aten.acosh",        "aten.atanh",        "aten.erf",
    "aten.erfc",       "aten.erfinv",      "aten.lgamma",       "aten.digamma",      "aten.sgn",
    "aten.sign",       "aten.frac",        "aten.sinc",         "aten.special_entr", "aten.deg2rad",
    "aten.rad2deg",    "aten.logit",       "aten.special_i1e",  "aten.special_i1",   "aten.nan_to_num",
    "aten.neg",        "aten.abs",         "aten.floor",        "aten.ceil",         "aten.round",
    "aten.trunc",      "aten.relu",        "aten.celu",         "aten.hardshrink",   "aten.softshrink",
    "aten.silu",       "aten.mish",        "aten.softplus",     "aten.elu",          "aten.leaky_relu",
    "aten.hardswish",  "aten.hardsigmoid", "aten.hardtanh",     "aten.isnan",        "aten.isinf",
    "aten.isposinf",   "aten.isneginf",    "aten.signbit",      "aten.logical_not",  "aten.bitwise_not",
    "aten.clone",      "aten.alias",       "aten.detach",       "aten.angle",        "aten.lift_fresh_copy"};

TEST(XlaPointwise, FunctionsOfFloats) {
  for (const auto dtype : kFloatDtypes) expect_all(kUnary, {}, {specials(dtype)});
}
TEST(XlaPointwise, FunctionsOfWholeNumbers) {
  // The other dtypes differ from int64 in operators that do not compute in floats.
  for (const auto dtype : {at::kLong, at::kBool}) expect_all(kUnary, {}, {wholes(dtype)});
  for (const auto dtype : {at::kInt, at::kShort, at::kChar, at::kByte}) {
    expect_all({"aten.exp", "aten.sgn", "aten.sign", "aten.neg", "aten.abs", "aten.floor", "aten.trunc", "aten.relu",
                "aten.isnan", "aten.signbit", "aten.logical_not", "aten.bitwise_not", "aten.angle", "aten.nan_to_num"},
               {}, {wholes(dtype)});
  }
}
TEST(XlaPointwise, FunctionsOfComplexNumbers) {
  for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
    expect_all({"aten.tanh",          "aten.exp",          "aten.expm1",          "aten.log",
                "aten.log1p",         "aten.sqrt",         "aten.rsqrt",          "aten.sin",
                "aten.cos",           "aten.tan",          "aten.sigmoid",        "aten.exp2",
                "aten.log2",          "aten.log10",        "aten.reciprocal",     "aten.asin",
                "aten.acos",          "aten.atan",         "aten.sinh",           "aten.cosh",
                "aten.asinh",         "aten.acosh",        "aten.atanh",          "aten.sgn",
                "aten.neg",           "aten.abs",          "aten.isnan",          "aten.isinf",
                "aten.logical_not",   "aten.clone",        "aten._conj_physical", "aten._conj",
                "aten.conj_physical", "aten.view_as_real", "aten.angle",          "aten.real",
                "aten.imag",          "aten.sinc"},
               {}, {samples(dtype)});
  }
}

const Names kBinary = {"aten.add.Tensor",
                       "aten.sub.Tensor",
                       "aten.rsub.Tensor",
                       "aten.mul.Tensor",
                       "aten.div.Tensor",
                       "aten.pow.Tensor_Tensor",
                       "aten.atan2",
                       "aten.hypot",
                       "aten.logaddexp",
                       "aten.logaddexp2",
                       "aten.xlogy.Tensor",
                       "aten.special_xlog1py",
                       "aten.ldexp.Tensor",
                       "aten.heaviside",
                       "aten.fmax",
                       "aten.fmin",
                       "aten.maximum",
                       "aten.minimum",
                       "aten.copysign.Tensor",
                       "aten.eq.Tensor",
                       "aten.ne.Tensor",
                       "aten.lt.Tensor",
                       "aten.le.Tensor",
                       "aten.gt.Tensor",
                       "aten.ge.Tensor",
                       "aten.logical_and",
                       "aten.logical_or",
                       "aten.logical_xor",
                       "aten.bitwise_and.Tensor",
                       "aten.bitwise_or.Tensor",
                       "aten.bitwise_xor.Tensor",
                       "aten.bitwise_left_shift.Tensor",
                       "aten.bitwise_right_shift.Tensor",
                       "aten._prelu_kernel",
                       "aten.clamp_min.Tensor",
                       "aten.clamp_max.Tensor",
                       "aten.floor_divide",
                       "aten.fmod.Tensor",
                       "aten.remainder.Tensor"};
bool needs_floats(const std::string& op) {
  return op == "aten.floor_divide" || op == "aten.fmod.Tensor" || op == "aten.remainder.Tensor" ||
         op == "aten.pow.Tensor_Tensor";
}
const Names kBinaryOfWholes = [] {
  Names names;
  for (const auto& op : kBinary) {
    if (!needs_floats(op)) names.push_back(op);
  }
  return names;
}();

TEST(XlaPointwise, PairsOfFloats) {
  for (const auto dtype : kFloatDtypes) {
    const auto [x, y] = pairs(specials(dtype));
    expect_all(kBinary, {}, {x, y});
  }
}
TEST(XlaPointwise, PairsOfWholeNumbers) {
  for (const auto dtype : kWholes) {
    const auto [x, y] = pairs(wholes(dtype));
    expect_all(kBinaryOfWholes, {}, {x, y});
  }
}

// Scalars beside tensors: numbers stay wide beside half types, and wrap beside whole ones.
TEST(XlaPointwise, Numbers) {
  const Names comparisons = {"aten.eq.Scalar", "aten.ne.Scalar", "aten.lt.Scalar",
                             "aten.le.Scalar", "aten.gt.Scalar", "aten.ge.Scalar"};
  Names arithmetic = {"aten.add.Scalar",
                      "aten.sub.Scalar",
                      "aten.rsub.Scalar",
                      "aten.mul.Scalar",
                      "aten.div.Scalar",
                      "aten.fmod.Scalar",
                      "aten.remainder.Scalar",
                      "aten.floor_divide.Scalar",
                      "aten.copysign.Scalar",
                      "aten.xlogy.Scalar_Other",
                      "aten.special_xlog1py.other_scalar",
                      "aten.clamp_min",
                      "aten.clamp_max",
                      "aten.fill.Scalar",
                      "aten.clamp",
                      "aten.pow.Tensor_Scalar"};
  arithmetic.insert(arithmetic.end(), comparisons.begin(), comparisons.end());
  for (const auto dtype : kFloatDtypes) {
    for (const double number : {0.1, -2.5}) expect_all(arithmetic, {c10::IValue(number)}, {specials(dtype)});
    expect_all({"aten.pow.Scalar", "aten.xlogy.Scalar_Self", "aten.special_xlog1py.self_scalar",
                "aten.remainder.Scalar_Tensor"},
               {c10::IValue(1.5)}, {specials(dtype)}, true);
  }
  for (const auto dtype : kWholes) {
    expect_all({"aten.add.Scalar", "aten.mul.Scalar"}, {c10::IValue(300)}, {wholes(dtype)});
    for (const int64_t number : {3, -4}) {
      if (dtype == at::kByte && number < 0) continue;
      const Names bits = {"aten.bitwise_and.Scalar",
                          "aten.bitwise_or.Scalar",
                          "aten.bitwise_xor.Scalar",
                          "aten.__lshift__.Scalar",
                          "aten.__rshift__.Scalar",
                          "aten.bitwise_left_shift.Tensor_Scalar",
                          "aten.bitwise_right_shift.Tensor_Scalar"};
      expect_all(bits, {c10::IValue(number)}, {wholes(dtype)});
      if (dtype != at::kBool) expect_all(arithmetic, {c10::IValue(number)}, {wholes(dtype)});
    }
    expect_all({"aten.add.Scalar", "aten.mul.Scalar", "aten.div.Scalar", "aten.lt.Scalar", "aten.ge.Scalar",
                "aten.clamp", "aten.pow.Tensor_Scalar"},
               {c10::IValue(2.5)}, {wholes(dtype)});
    expect_all({"aten.bitwise_and.Scalar_Tensor", "aten.bitwise_or.Scalar_Tensor", "aten.bitwise_xor.Scalar_Tensor"},
               {c10::IValue(5)}, {wholes(dtype)}, true);
  }
}

TEST(XlaPointwise, Powers) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const double n : {0., 1., 2., 3., 4., 0.5, -0.5, -1., -2., 1.7})
      expect_one("aten.pow.Tensor_Scalar", {specials(dtype)}, {c10::IValue(n)});
  }
  for (const auto dtype : {at::kLong, at::kInt, at::kByte}) {
    for (const int64_t n : {0, 1, 2, 3, 6}) expect_one("aten.pow.Tensor_Scalar", {wholes(dtype)}, {c10::IValue(n)});
    expect_one("aten.pow.Tensor_Scalar", {wholes(dtype)}, {c10::IValue(0.5)});
  }
  for (const int64_t n : {0, 1, 2, 3})
    expect_one("aten.pow.Tensor_Scalar", {samples(at::kComplexFloat)}, {c10::IValue(n)});
}

TEST(XlaPointwise, Divisions) {
  for (const char* mode : {"floor", "trunc"}) {
    for (const auto dtype : kFloatDtypes) {
      const auto [x, y] = pairs(specials(dtype));
      expect_one("aten.div.Tensor_mode", {x, y}, {c10::IValue(mode)});
      // Whole quotients, whose reciprocals round.
      const auto n = at::arange(1, 100, dtype);
      expect_one("aten.div.Tensor_mode", {n.unsqueeze(1) * at::arange(0, 3, dtype), n.unsqueeze(1)},
                 {c10::IValue(mode)});
      for (const double d : {49., 41., 0.1, -7.})
        expect_one("aten.div.Scalar_mode", {at::arange(-98, 99, dtype)}, {c10::IValue(d), c10::IValue(mode)});
    }
    for (const auto dtype : {at::kLong, at::kInt, at::kChar, at::kByte}) {
      expect_one("aten.div.Scalar_mode", {wholes(dtype)}, {c10::IValue(3), c10::IValue(mode)});
      if (dtype != at::kByte) expect_one("aten.div.Scalar_mode", {wholes(dtype)}, {c10::IValue(-3), c10::IValue(mode)});
    }
  }
  expect_one("aten.fmod.Tensor", {at::tensor({1e30, 1e20, -1e10}, at::kFloat), at::tensor({3., 0.7, 0.3}, at::kFloat)});
}

TEST(XlaPointwise, SelectionsAndConversions) {
  const auto [x, y] = pairs(specials(at::kFloat));
  expect_one("aten.where.self", {x > y, x, y});
  expect_one("aten.where.self", {at::tensor({1, 0, 2}, at::kByte), at::randn({3}), at::randn({3}, at::kDouble)});
  expect_one("aten.where.ScalarOther", {x > y, x}, {c10::IValue(2.5)});
  expect_one("aten.masked_fill.Scalar", {x.expand({19, 19}), x > y}, {c10::IValue(-kInf)});
  expect_one("aten.masked_fill.Tensor", {x.expand({19, 19}), x > y, at::scalar_tensor(2.5)});
  for (const auto& bounds : {std::pair{-1., 1.}, {2., -2.}, {kNan, 1.}}) {
    expect_one("aten.clamp", {x}, {c10::IValue(bounds.first), c10::IValue(bounds.second)});
    expect_one("aten.clamp", {x}, {c10::IValue(), c10::IValue(bounds.second)});
  }
  expect_one("aten.clamp.Tensor", {x, y, -y});
  expect_one("aten.nan_to_num", {x.to(at::kHalf)}, {c10::IValue(1.), c10::IValue(2.), c10::IValue(-3.)});
  const auto finite = at::tensor({0., -0.5, 1.5, 100.9, 2.5, 63.}, at::kDouble);
  for (const auto from : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool,
                          at::kComplexFloat}) {
    XlaCheck check;
    const Value value = check.input(finite.to(from));
    std::vector<Value> converted;
    for (const auto to : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool, at::kComplexDouble}) {
      converted.push_back(check.node("aten._to_copy", {value, c10::IValue(to)}));
    }
    check.expect_eager(converted);
  }
  expect_one("aten._to_copy", {at::tensor({-1.5, 300.2, 511.9})}, {c10::IValue(at::kByte)});
  expect_one("aten._to_copy", {specials(at::kFloat)}, {c10::IValue(at::kBool)});
  expect_one("aten._to_copy", {at::tensor({-1, 300, 70000})}, {c10::IValue(at::kByte)});
  expect_one("aten.copy", {at::zeros({2, 3}), at::arange(3)});
  expect_one("aten.fill.Tensor", {at::zeros({2, 3}, at::kInt), at::scalar_tensor(2.7)});
}

TEST(XlaPointwise, ScaledSumsAndMixedDtypes) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kComplexFloat}) {
    expect_all({"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"}, {c10::IValue(0.3)},
               {samples(dtype), samples(dtype)});
  }
  expect_all({"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"}, {c10::IValue(3)},
             {wholes(at::kByte), wholes(at::kByte)});
  expect_one("aten.add.Tensor", {at::ones({2}, at::kBool), at::ones({2}, at::kBool)}, {c10::IValue(false)});
  const std::vector<at::Tensor> kinds = {at::arange(3),
                                         at::arange(3, at::kByte),
                                         at::rand({3}),
                                         at::rand({3}, at::kHalf),
                                         at::ones({3}, at::kBool),
                                         at::scalar_tensor(2.5),
                                         at::scalar_tensor(3, at::kLong),
                                         samples(at::kComplexFloat).slice(0, 0, 3)};
  const Names mixed = {"aten.add.Tensor", "aten.mul.Tensor", "aten.div.Tensor", "aten.eq.Tensor",
                       "aten.lt.Tensor",  "aten.maximum",    "aten.atan2"};
  for (const auto& a : kinds) {
    XlaCheck check;
    std::vector<Value> outputs;
    const Value left = check.input(a);
    for (const auto& b : kinds) {
      const Value right = check.input(b);
      for (const auto& op : mixed) {
        const bool orders = op == "aten.lt.Tensor" || op == "aten.maximum" || op == "aten.atan2";
        if (orders && (a.is_complex() || b.is_complex())) continue;
        outputs.push_back(check.node(op, {left, right}));
      }
    }
    check.expect_eager(outputs);
  }
}

TEST(XlaPointwise, ActivationsAndParts) {
  for (const auto dtype : kFloatDtypes) {
    const auto x = specials(dtype), g = at::linspace(-1, 1, 19).to(dtype), w = at::linspace(2, -1, 19).to(dtype);
    expect_all({"aten.hardshrink_backward", "aten.softshrink_backward", "aten.threshold_backward"}, {c10::IValue(0.5)},
               {g, x});
    expect_one("aten.threshold", {x}, {c10::IValue(0.7), c10::IValue(-3.)});
    expect_all({"aten.celu", "aten.hardshrink", "aten.softshrink"}, {c10::IValue(1.7)}, {x});
    expect_one("aten.mish_backward", {g, x});
    expect_one("aten._prelu_kernel_backward", {g, x, w});
    expect_one("aten.logit", {x}, {c10::IValue(0.1)});
    expect_one("aten.logit_backward", {g, x}, {c10::IValue(0.1)});
    // Where eager depends on the machine's vectors: gelu of infinity (or NaN), the slope of logit at -0 (either
    // infinity).
    expect_one("aten.gelu", {x.slice(0, 0, 16)});
    expect_one("aten.logit_backward", {g, at::where(x.eq(0), x.abs(), x)});
    expect_one("aten.lerp.Tensor", {g, x, w});
    expect_all({"aten.addcmul", "aten.addcdiv"}, {c10::IValue(0.5)}, {g, x, w});
    const auto pair = at::linspace(-2, 3, 24).to(dtype).reshape({2, 4, 3});
    expect_one("aten.glu", {pair}, {c10::IValue(1)});
    expect_one("aten.glu_backward", {at::ones({1, 4, 3}, dtype), pair}, {c10::IValue(-3)});
  }
  expect_one("aten.addcmul", {wholes(at::kInt), wholes(at::kInt), wholes(at::kInt)}, {c10::IValue(3)});
  for (const int64_t digits : {0, 1, 3, -1})
    expect_one("aten.round.decimals", {at::tensor({0.25, 2.345, -15., 25., 1234.5678})}, {c10::IValue(digits)});
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto x = samples(dtype).slice(0, 0, 16);
    expect_all({"aten.complex", "aten.polar"}, {}, {x, x.flip(0)});
    expect_one("aten.view_as_complex", {x.reshape({2, 4, 2})});
  }
}

TEST(XlaPointwise, ShapesAndLayouts) {
  const Names unary = {"aten.exp",   "aten.sign",    "aten.isnan", "aten.clone",
                       "aten.angle", "aten.digamma", "aten.frac",  "aten.celu"};
  const Names binary = {"aten.add.Tensor",       "aten.lt.Tensor",         "aten.hypot",
                        "aten.remainder.Tensor", "aten.pow.Tensor_Tensor", "aten.copysign.Tensor"};
  for (const auto& x :
       {at::rand({}), at::rand({0}), at::rand({2, 0, 3}), at::rand({3, 4}).t(), at::rand({2, 6}).slice(1, 0, 6, 2),
        at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast), at::rand({3, 1}).expand({3, 4})}) {
    expect_all(unary, {}, {x});
    expect_all(binary, {}, {x, x + 1});
    expect_all(binary, {}, {x, at::scalar_tensor(0.5)});
  }
  expect_all(binary, {}, {at::rand({3, 1, 2}), at::rand({4, 1})});
}

// What eager refuses, or what has no exact lowering, is left to the interpreter.
TEST(XlaPointwise, Refusals) {
  const auto is_lowered = [](const std::string& op, const std::vector<at::Tensor>& tensors,
                             std::vector<Operand> rest = {}) {
    test::GraphBuilder builder;
    std::vector<Operand> operands;
    for (const auto& tensor : tensors) operands.emplace_back(builder.input(tensor));
    operands.insert(operands.end(), rest.begin(), rest.end());
    const Graph graph = builder.finish({builder.node(op, std::move(operands))});
    return detail::find_lowering(graph, graph.nodes()[0]) != nullptr;
  };
  const at::Tensor n = at::arange(1, 4);
  EXPECT_FALSE(is_lowered("aten.floor_divide", {n, n}));
  EXPECT_FALSE(is_lowered("aten.remainder.Tensor", {n, n}));
  EXPECT_FALSE(is_lowered("aten.fmod.Tensor", {n, n}));
  EXPECT_FALSE(is_lowered("aten.div.Tensor_mode", {n, n}, {c10::IValue("trunc")}));
  EXPECT_TRUE(is_lowered("aten.remainder.Scalar", {n}, {c10::IValue(2)}));
  EXPECT_TRUE(is_lowered("aten.pow.Tensor_Tensor", {n, n}));
  EXPECT_TRUE(is_lowered("aten.div.Tensor", {n, n}));
}

}  // namespace
}  // namespace diptych
