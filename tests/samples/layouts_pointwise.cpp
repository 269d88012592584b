// Samples of pointwise operators and activations.
#include <torch/types.h>

#include "samples/families.h"

namespace diptych::test {
namespace {

const std::vector<std::string> kBinary = {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor",
                                          "aten.maximum",    "aten.minimum",    "aten.eq.Tensor",  "aten.ne.Tensor",
                                          "aten.lt.Tensor",  "aten.le.Tensor",  "aten.gt.Tensor",  "aten.ge.Tensor"};
const std::vector<std::string> kUnary = {
    "aten.neg",    "aten.exp",    "aten.log",       "aten.sin",        "aten.cos",   "aten.tanh",       "aten.sigmoid",
    "aten.sqrt",   "aten.rsqrt",  "aten.silu",      "aten.reciprocal", "aten.gelu",  "aten.relu",       "aten.logit",
    "aten.isnan",  "aten.angle",  "aten.hardswish", "aten.hardtanh",   "aten.abs",   "aten.nan_to_num", "aten.erf",
    "aten.erfc",   "aten.erfinv", "aten.expm1",     "aten.log1p",      "aten.log2",  "aten.log10",      "aten.exp2",
    "aten.tan",    "aten.asin",   "aten.acos",      "aten.atan",       "aten.sinh",  "aten.cosh",       "aten.asinh",
    "aten.acosh",  "aten.atanh",  "aten.floor",     "aten.ceil",       "aten.trunc", "aten.sign",       "aten.sgn",
    "aten.lgamma", "aten.digamma"};
const std::vector<std::string> kWithScalar = {"aten.add.Scalar", "aten.sub.Scalar", "aten.rsub.Scalar",
                                              "aten.mul.Scalar", "aten.div.Scalar", "aten.pow.Tensor_Scalar",
                                              "aten.eq.Scalar",  "aten.ne.Scalar",  "aten.lt.Scalar",
                                              "aten.le.Scalar",  "aten.gt.Scalar",  "aten.ge.Scalar"};
const std::vector<std::string> kBackward = {"aten.gelu_backward",    "aten.silu_backward",      "aten.tanh_backward",
                                            "aten.sigmoid_backward", "aten.hardswish_backward", "aten.mish_backward"};

struct Pair {
  at::Tensor a, b;
  std::string note;
};

// A number where an operator takes a tensor.
at::Tensor number(const at::Scalar& value) {
  at::Tensor tensor = at::scalar_tensor(value, value.isFloatingPoint() ? at::kDouble : at::kLong);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

// Pairs of operands: each layout with itself, with a contiguous one, broadcast, and of mixed dtypes.
std::vector<Pair> pairs() {
  std::vector<Pair> result;
  for (const auto& shape : std::vector<std::vector<int64_t>>{{4, 3, 5}, {2, 3, 4, 5}, {3, 1}, {1, 3}, {}}) {
    const at::Tensor plain = f32(shape);
    for (const Layout& layout : layouts(plain)) {
      result.push_back({layout.tensor, layout.tensor, layout.name + " twice"});
      if (layout.name != "empty") result.push_back({layout.tensor, plain, layout.name + " and contiguous"});
      if (layout.name != "empty") result.push_back({plain, layout.tensor, "contiguous and " + layout.name});
    }
  }
  const at::Tensor x = f32({4, 3, 5});
  result.push_back({x, f32({5}), "bias"});
  result.push_back({f32({5}), x, "bias first"});
  result.push_back({x, f32({3, 1}), "column"});
  result.push_back({x, f32({}), "0-d"});
  result.push_back({f32({4, 1}), f32({1, 5}), "outer"});
  result.push_back({f32({1, 4, 1}), f32({1, 4, 6}), "size-1 dimensions"});
  result.push_back({f32({0, 1}), f32({1, 5}), "empty outer"});
  result.push_back({f32({0, 1}), f32({0, 1}), "empty with size 1"});
  result.push_back({x.transpose(0, 2), f32({4}), "transposed and bias"});
  result.push_back({x, f64({4, 3, 5}), "mixed floats"});
  result.push_back({x, i64({4, 3, 5}, 9), "float and int"});
  result.push_back({i64({4, 3}, 9) + 1, i64({4, 3}, 9) + 1, "ints"});
  result.push_back({x.to(at::kBFloat16), x.to(at::kBFloat16), "bf16"});
  result.push_back({torch::empty_strided({1, 3}, {100, 1}).fill_(1), f32({1, 3}), "odd stride of a size-1 dimension"});
  result.push_back({channels_last(f32({2, 3, 1, 1})), channels_last(f32({2, 3, 1, 1})), "channels last 1x1"});
  return result;
}

// Pairs of a tensor and a number.
std::vector<Pair> pairs_with_numbers() {
  std::vector<Pair> result;
  for (const Layout& layout : layouts(f32({4, 3, 5}))) {
    result.push_back({layout.tensor, number(2.5), layout.name + " and a number"});
    result.push_back({number(3), layout.tensor, "a number and " + layout.name});
  }
  result.push_back({f32({}), number(2.5), "0-d and a number"});
  result.push_back({f32({3}).to(at::kHalf), number(2.5), "f16 and a number"});
  result.push_back({i64({3}, 9), number(2.5), "ints and a number"});
  return result;
}

std::vector<Layout> inputs() {
  auto result = layouts(f32({4, 3, 5}));
  for (const Layout& layout : layouts(f32({2, 3, 4, 5}))) result.push_back(layout);
  result.push_back({f32({}), "0-d"});
  result.push_back({f64({3, 2}), "f64"});
  result.push_back({f32({3, 2}).to(at::kBFloat16), "bf16"});
  result.push_back({i64({3, 2}, 9) + 1, "i64"});
  result.push_back({f32({1, 3}).expand({4, 3}), "stride 0"});
  result.push_back({torch::empty_strided({1, 3}, {1, 1}).fill_(1), "odd stride of a size-1 dimension"});
  return result;
}

void add_gates(Samples& out) {
  for (const auto& shape : std::vector<std::vector<int64_t>>{{4, 6}, {2, 4, 3, 5}}) {
    for (const Layout& x : layouts(f32(shape))) {
      out.push_back(sample("aten.log_sigmoid_forward", {x.tensor}, x.name));
      const auto forward = at::log_sigmoid_forward(x.tensor);
      out.push_back(
          sample("aten.log_sigmoid_backward", {torch::ones(x.tensor.sizes()), x.tensor, std::get<1>(forward)}, x.name));
      out.push_back(sample("aten.glu", {x.tensor, 1}, x.name));
      out.push_back(sample("aten.glu_backward", {at::glu(x.tensor, 1), x.tensor, 1}, x.name));
    }
  }
}

}  // namespace

Samples layouts_pointwise() {
  Samples out;
  for (const Pair& p : pairs()) {
    for (const auto& op : kBinary) out.push_back(sample(op, {p.a, p.b}, p.note));
    out.push_back(sample("aten.where.self", {torch::ones({1}, at::kBool), p.a, p.b}, p.note));
    if (p.a.sizes() == p.b.sizes()) out.push_back(sample("aten.where.self", {p.a.gt(0), p.a, p.b}, p.note));
    out.push_back(sample("aten.floor_divide", {p.a, p.b}, p.note));
    out.push_back(sample("aten.rsub.Tensor", {p.a, p.b}, p.note));
    for (const auto& op : {"aten.logical_and", "aten.logical_or", "aten.logical_xor"}) {
      out.push_back(sample(op, {p.a, p.b}, p.note));
    }
    if (p.a.dtype() != p.b.dtype() || !p.a.is_floating_point()) continue;
    for (const auto& op : kBackward) {
      // oneDNN's gelu backward, which ATen calls, does not broadcast.
      if (op != "aten.gelu_backward" || p.a.sizes() == p.b.sizes()) out.push_back(sample(op, {p.a, p.b}, p.note));
    }
    out.push_back(sample("aten.threshold_backward", {p.a, p.b, 0}, p.note));
    if (p.a.scalar_type() == at::kFloat) {
      out.push_back(sample("aten.complex", {p.a, p.b}, p.note));
      out.push_back(sample("aten.polar", {p.a.abs(), p.b}, p.note));
    }
  }
  for (const Pair& p : pairs_with_numbers()) {
    for (const auto& op : kBinary) out.push_back(sample(op, {p.a, p.b}, p.note));
  }
  for (const Layout& x : inputs()) {
    for (const auto& op : kWithScalar) {
      out.push_back(sample(op, {x.tensor, 2}, x.name));
      out.push_back(sample(op, {x.tensor, 2.5}, x.name));
    }
    out.push_back(sample("aten.remainder.Scalar_Tensor", {2.5, x.tensor}, x.name));
    out.push_back(sample("aten.logical_not", {x.tensor}, x.name));
  }
  for (const auto& op : {"aten.__lshift__", "aten.__rshift__"}) {
    out.push_back(sample(op + std::string(".Scalar"), {i64({3, 2}, 9), 1}));
    out.push_back(sample(op + std::string(".Tensor"), {i64({3, 2}, 9), i64({2}, 3)}));
  }
  out.push_back(sample("aten.mul.Scalar", {f32({2, 3}), c10::complex<double>(1, 2)}, "complex scalar"));
  return out;
}

Samples layouts_activation() {
  Samples out;
  for (const Layout& x : inputs()) {
    for (const auto& op : kUnary) {
      const bool needs_float = op == "aten.silu" || op == "aten.gelu" || op == "aten.hardswish";
      if (!needs_float || x.tensor.is_floating_point()) out.push_back(sample(op, {x.tensor}, x.name));
    }
    if (!x.tensor.is_floating_point()) continue;
    out.push_back(sample("aten.frexp.Tensor", {x.tensor}, x.name));
    out.push_back(sample("aten.hardtanh_backward", {x.tensor, x.tensor, -1, 1}, x.name));
    out.push_back(sample("aten._prelu_kernel", {x.tensor, torch::ones({1}, x.tensor.dtype())}, x.name));
    out.push_back(
        sample("aten._prelu_kernel_backward", {x.tensor, x.tensor, torch::ones({1}, x.tensor.dtype())}, x.name));
  }
  out.push_back(sample("aten.angle", {torch::randn({3, 2}, at::kComplexFloat)}, "complex"));
  out.push_back(sample("aten.abs", {torch::randn({3, 2}, at::kComplexFloat)}, "complex"));
  out.push_back(sample("aten.conj_physical", {torch::randn({3, 2}, at::kComplexFloat)}, "complex"));
  add_gates(out);
  return out;
}

}  // namespace diptych::test
