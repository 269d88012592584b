// Elementwise operators beside eager: dtypes, promotion, special values.
#include <ATen/ATen.h>
#include <algorithm>

#include "samples/families.h"

namespace diptych::test {
namespace pointwise_calls {
namespace {

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

// Each operator; those that eager refuses for these dtypes are left out.
void add_all(Samples& out, const Names& ops, const std::vector<c10::IValue>& rest,
             const std::vector<at::Tensor>& tensors, bool numbers_first = false) {
  std::vector<c10::IValue> arguments(tensors.begin(), tensors.end());
  arguments.insert(numbers_first ? arguments.begin() : arguments.end(), rest.begin(), rest.end());
  for (const std::string& op : ops) {
    add(out, op, arguments);
    out.back().may_be_refused = true;
  }
}
void add_one(Samples& out, const std::string& op, const std::vector<at::Tensor>& tensors,
             const std::vector<c10::IValue>& rest = {}) {
  add(out, op, tensors, rest);
}

// What numbers_* has not.
void functions(Samples& out) {
  std::vector<at::ScalarType> dtypes = kFloatDtypes;
  dtypes.insert(dtypes.end(), kWholes.begin(), kWholes.end());
  for (const auto dtype : dtypes) {
    const at::Tensor x = samples(dtype);
    add_all(out, {"aten.special_exp2", "aten.special_i1e", "aten.special_i1", "aten.hardtanh"}, {}, {x});
    add_all(out, {"aten.ldexp.Tensor"}, {}, {x.unsqueeze(1), x.unsqueeze(0)});
  }
}
void functions_of_complex_numbers(Samples& out) {
  for (const auto dtype : {at::kComplexFloat, at::kComplexDouble}) {
    add_all(out, {"aten.tanh",          "aten.exp",          "aten.expm1",          "aten.log",
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

// Scalars beside tensors: numbers stay wide beside half types, and wrap beside whole ones.
void numbers(Samples& out) {
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
    for (const double number : {0.1, -2.5}) add_all(out, arithmetic, {c10::IValue(number)}, {specials(dtype)});
    add_all(out,
            {"aten.pow.Scalar", "aten.xlogy.Scalar_Self", "aten.special_xlog1py.self_scalar",
             "aten.remainder.Scalar_Tensor"},
            {c10::IValue(1.5)}, {specials(dtype)}, true);
  }
  for (const auto dtype : kWholes) {
    add_all(out, {"aten.add.Scalar", "aten.mul.Scalar"}, {c10::IValue(300)}, {wholes(dtype)});
    for (const int64_t number : {3, -4}) {
      if (dtype == at::kByte && number < 0) continue;
      const Names bits = {"aten.bitwise_and.Scalar",
                          "aten.bitwise_or.Scalar",
                          "aten.bitwise_xor.Scalar",
                          "aten.__lshift__.Scalar",
                          "aten.__rshift__.Scalar",
                          "aten.bitwise_left_shift.Tensor_Scalar",
                          "aten.bitwise_right_shift.Tensor_Scalar"};
      add_all(out, bits, {c10::IValue(number)}, {wholes(dtype)});
      if (dtype != at::kBool) add_all(out, arithmetic, {c10::IValue(number)}, {wholes(dtype)});
    }
    add_all(out,
            {"aten.add.Scalar", "aten.mul.Scalar", "aten.div.Scalar", "aten.lt.Scalar", "aten.ge.Scalar", "aten.clamp",
             "aten.pow.Tensor_Scalar"},
            {c10::IValue(2.5)}, {wholes(dtype)});
    add_all(out, {"aten.bitwise_and.Scalar_Tensor", "aten.bitwise_or.Scalar_Tensor", "aten.bitwise_xor.Scalar_Tensor"},
            {c10::IValue(5)}, {wholes(dtype)}, true);
  }
}

void powers(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const double n : {0., 1., 2., 3., 4., 0.5, -0.5, -1., -2., 1.7})
      add_one(out, "aten.pow.Tensor_Scalar", {specials(dtype)}, {c10::IValue(n)});
  }
  for (const auto dtype : {at::kLong, at::kInt, at::kByte}) {
    for (const int64_t n : {0, 1, 2, 3, 6}) add_one(out, "aten.pow.Tensor_Scalar", {wholes(dtype)}, {c10::IValue(n)});
    add_one(out, "aten.pow.Tensor_Scalar", {wholes(dtype)}, {c10::IValue(0.5)});
  }
  for (const int64_t n : {0, 1, 2, 3})
    add_one(out, "aten.pow.Tensor_Scalar", {samples(at::kComplexFloat)}, {c10::IValue(n)});
}

void divisions(Samples& out) {
  for (const char* mode : {"floor", "trunc"}) {
    for (const auto dtype : kFloatDtypes) {
      const auto [x, y] = pairs(specials(dtype));
      add_one(out, "aten.div.Tensor_mode", {x, y}, {c10::IValue(mode)});
      // Whole quotients, whose reciprocals round.
      const auto n = at::arange(1, 100, dtype);
      add_one(out, "aten.div.Tensor_mode", {n.unsqueeze(1) * at::arange(0, 3, dtype), n.unsqueeze(1)},
              {c10::IValue(mode)});
      for (const double d : {49., 41., 0.1, -7.})
        add_one(out, "aten.div.Scalar_mode", {at::arange(-98, 99, dtype)}, {c10::IValue(d), c10::IValue(mode)});
    }
    for (const auto dtype : {at::kLong, at::kInt, at::kChar, at::kByte}) {
      add_one(out, "aten.div.Scalar_mode", {wholes(dtype)}, {c10::IValue(3), c10::IValue(mode)});
      if (dtype != at::kByte)
        add_one(out, "aten.div.Scalar_mode", {wholes(dtype)}, {c10::IValue(-3), c10::IValue(mode)});
    }
  }
  add_one(out, "aten.fmod.Tensor",
          {at::tensor({1e30, 1e20, -1e10}, at::kFloat), at::tensor({3., 0.7, 0.3}, at::kFloat)});
}

void selections_and_conversions(Samples& out) {
  const auto [x, y] = pairs(specials(at::kFloat));
  add_one(out, "aten.where.self", {x > y, x, y});
  add_one(out, "aten.where.self", {at::tensor({1, 0, 2}, at::kByte), at::randn({3}), at::randn({3}, at::kDouble)});
  add_one(out, "aten.where.ScalarOther", {x > y, x}, {c10::IValue(2.5)});
  add_one(out, "aten.masked_fill.Scalar", {x.expand({19, 19}), x > y}, {c10::IValue(-kInf)});
  add_one(out, "aten.masked_fill.Tensor", {x.expand({19, 19}), x > y, at::scalar_tensor(2.5)});
  for (const auto dtype : {at::kFloat, at::kLong}) {
    add_one(out, "diptych.checked", {x.to(dtype), x.isnan() & ~x.isnan()},
            {c10::IValue("refused"), c10::IValue(false)});
  }
  for (const auto& bounds : {std::pair{-1., 1.}, {2., -2.}, {kNan, 1.}}) {
    add_one(out, "aten.clamp", {x}, {c10::IValue(bounds.first), c10::IValue(bounds.second)});
    add_one(out, "aten.clamp", {x}, {c10::IValue(), c10::IValue(bounds.second)});
  }
  add_one(out, "aten.clamp.Tensor", {x, y, -y});
  add_one(out, "aten.nan_to_num", {x.to(at::kHalf)}, {c10::IValue(1.), c10::IValue(2.), c10::IValue(-3.)});
  const auto finite = at::tensor({0., -0.5, 1.5, 100.9, 2.5, 63.}, at::kDouble);
  for (const auto from : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kByte, at::kBool,
                          at::kComplexFloat}) {
    for (const auto to : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool, at::kComplexDouble}) {
      add_one(out, "aten._to_copy", {finite.to(from)}, {to});
    }
  }
  add_one(out, "aten._to_copy", {at::tensor({-1.5, 300.2, 511.9})}, {c10::IValue(at::kByte)});
  add_one(out, "aten._to_copy", {specials(at::kFloat)}, {c10::IValue(at::kBool)});
  add_one(out, "aten._to_copy", {at::tensor({-1, 300, 70000})}, {c10::IValue(at::kByte)});
  add_one(out, "aten.copy", {at::zeros({2, 3}), at::arange(3)});
  add_one(out, "aten.fill.Tensor", {at::zeros({2, 3}, at::kInt), at::scalar_tensor(2.7)});
}

void scaled_sums_and_mixed_dtypes(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kComplexFloat}) {
    add_all(out, {"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"}, {c10::IValue(0.3)},
            {samples(dtype), samples(dtype)});
  }
  add_all(out, {"aten.add.Tensor", "aten.sub.Tensor", "aten.rsub.Tensor"}, {c10::IValue(3)},
          {wholes(at::kByte), wholes(at::kByte)});
  add_one(out, "aten.add.Tensor", {at::ones({2}, at::kBool), at::ones({2}, at::kBool)}, {c10::IValue(false)});
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
    for (const auto& b : kinds) {
      for (const auto& op : mixed) {
        const bool orders = op == "aten.lt.Tensor" || op == "aten.maximum" || op == "aten.atan2";
        if (orders && (a.is_complex() || b.is_complex())) continue;
        add_one(out, op, {a, b});
      }
    }
  }
}

void activations_and_parts(Samples& out) {
  for (const auto dtype : kFloatDtypes) {
    const auto x = specials(dtype), g = at::linspace(-1, 1, 19).to(dtype), w = at::linspace(2, -1, 19).to(dtype);
    add_all(out, {"aten.hardshrink_backward", "aten.softshrink_backward", "aten.threshold_backward"},
            {c10::IValue(0.5)}, {g, x});
    add_one(out, "aten.threshold", {x}, {c10::IValue(0.7), c10::IValue(-3.)});
    add_all(out, {"aten.celu", "aten.hardshrink", "aten.softshrink"}, {c10::IValue(1.7)}, {x});
    add_one(out, "aten.mish_backward", {g, x});
    add_one(out, "aten.log_sigmoid_backward", {g, x, x.abs().neg().exp()});
    add_one(out, "aten._prelu_kernel_backward", {g, x, w});
    add_one(out, "aten.logit", {x}, {c10::IValue(0.1)});
    add_one(out, "aten.logit_backward", {g, x}, {c10::IValue(0.1)});
    // Where eager depends on the machine's vectors: gelu of infinity (or NaN), the slope of logit at -0 (either
    // infinity).
    add_one(out, "aten.gelu", {x.slice(0, 0, 16)});
    add_one(out, "aten.logit_backward", {g, at::where(x.eq(0), x.abs(), x)});
    add_one(out, "aten.lerp.Tensor", {g, x, w});
    add_all(out, {"aten.addcmul", "aten.addcdiv"}, {c10::IValue(0.5)}, {g, x, w});
    const auto pair = at::linspace(-2, 3, 24).to(dtype).reshape({2, 4, 3});
    add_one(out, "aten.glu", {pair}, {c10::IValue(1)});
    add_one(out, "aten.glu_backward", {at::ones({1, 4, 3}, dtype), pair}, {c10::IValue(-3)});
  }
  add_one(out, "aten.addcmul", {wholes(at::kInt), wholes(at::kInt), wholes(at::kInt)}, {c10::IValue(3)});
  for (const int64_t digits : {0, 1, 3, -1})
    add_one(out, "aten.round.decimals", {at::tensor({0.25, 2.345, -15., 25., 1234.5678})}, {c10::IValue(digits)});
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    const auto x = samples(dtype).slice(0, 0, 16);
    add_all(out, {"aten.complex", "aten.polar"}, {}, {x, x.flip(0)});
    add_one(out, "aten.view_as_complex", {x.reshape({2, 4, 2})});
  }
}

void shapes_and_layouts(Samples& out) {
  const Names unary = {"aten.exp",   "aten.sign",    "aten.isnan", "aten.clone",
                       "aten.angle", "aten.digamma", "aten.frac",  "aten.celu"};
  const Names binary = {"aten.add.Tensor",       "aten.lt.Tensor",         "aten.hypot",
                        "aten.remainder.Tensor", "aten.pow.Tensor_Tensor", "aten.copysign.Tensor"};
  for (const auto& x :
       {at::rand({}), at::rand({0}), at::rand({2, 0, 3}), at::rand({3, 4}).t(), at::rand({2, 6}).slice(1, 0, 6, 2),
        at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast), at::rand({3, 1}).expand({3, 4})}) {
    add_all(out, unary, {}, {x});
    add_all(out, binary, {}, {x, x + 1});
    add_all(out, binary, {}, {x, at::scalar_tensor(0.5)});
  }
  add_all(out, binary, {}, {at::rand({3, 1, 2}), at::rand({4, 1})});
}

// What eager refuses, or what has no exact lowering, is left to the interpreter.
void refusals(Samples& out) {
  const at::Tensor n = at::arange(1, 4);
  add_one(out, "aten.floor_divide", {n, n});
  add_one(out, "aten.remainder.Tensor", {n, n});
  add_one(out, "aten.fmod.Tensor", {n, n});
  add_one(out, "aten.div.Tensor_mode", {n, n}, {c10::IValue("trunc")});
  add_one(out, "aten.remainder.Scalar", {n}, {c10::IValue(2)});
  add_one(out, "aten.pow.Tensor_Tensor", {n, n});
  add_one(out, "aten.div.Tensor", {n, n});
}

}  // namespace
}  // namespace pointwise_calls

Samples calls_pointwise() {
  using namespace pointwise_calls;
  Samples out;
  functions(out);
  functions_of_complex_numbers(out);
  numbers(out);
  powers(out);
  divisions(out);
  selections_and_conversions(out);
  scaled_sums_and_mixed_dtypes(out);
  activations_and_parts(out);
  shapes_and_layouts(out);
  refusals(out);
  return out;
}

}  // namespace diptych::test
