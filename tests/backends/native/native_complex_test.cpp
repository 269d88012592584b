// Programs of complex numbers as native kernels, beside eager: results, gradients, and tensors that lie in memory in
// every way, lazily conjugated ones included.
#include "backends/native/native_case.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/fusion/fuse.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/prepare/prepare.h"
#include "interpreter/graph_builder.h"
#include "testing/eager_check.h"

namespace diptych {

using namespace detail;
namespace {

using testing::CheckOptions;
using testing::expect_as_eager;
using testing::natively;
using testing::Tensors;

std::function<Tensors()> complex_leaves(std::vector<std::vector<int64_t>> sizes,
                                        at::ScalarType dtype = at::kComplexFloat) {
  return [sizes = std::move(sizes), dtype] {
    torch::manual_seed(6);
    Tensors leaves;
    for (const auto& size : sizes) leaves.push_back(torch::randn(size, dtype).requires_grad_());
    return leaves;
  };
}

Tensors arithmetic(const Tensors& t) {
  const auto x = t[0], y = t[1];
  const auto z = x * y.conj() + c10::complex<double>(0.5, -2);
  const auto w = (z / (y + 3) - x.reciprocal()) * 2;
  return {w, torch::where(torch::real(w) > 0, w, z.conj()), -w + torch::real(z), w.eq(z), w * torch::abs(z)};
}

Tensors functions(const Tensors& t) {
  const auto x = t[0], y = t[1];
  return {x.exp() + y.sin() * x.cos(),   (x * x + 2).log().sqrt(),       x.tanh() * y.sinh() + y.cosh().sigmoid(),
          torch::angle(x * y) + x.abs(), x.sgn() * y.pow(2) + x.pow(-1), (x + 3).tan().rsqrt()};
}

Tensors parts(const Tensors& t) {
  const auto x = t[0], y = t[1];
  const auto re = torch::real(x * y), im = torch::imag(x.conj() * y);
  return {torch::complex(re * 2, im + re), torch::view_as_real(x * 2).sum(-1), torch::polar(re.abs(), im),
          torch::view_as_complex(torch::stack({re, im}, -1)) * y};
}

Tensors sums(const Tensors& t) {
  const auto x = t[0], y = t[1];
  return {(x * y.conj()).sum(),         (x * y).sum(1),      (x + y).mean(0),
          (x - x.mean(1, true)) * y,    (x * y).abs().sum(), (x * 2).flip(1).slice(0, 1, 3) + y.slice(0, 1, 3),
          torch::cat({x * y, y}, 0) * 2};
}

constexpr Tensors (*kPrograms[])(const Tensors&) = {arithmetic, functions, parts, sums};

TEST(NativeComplex, ComputesWhatEagerComputes) {
  for (const auto program : kPrograms) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 5}, {3, 700}, {4, 1}, {3, 0}}) {
      expect_as_eager(complex_leaves({sizes, sizes}), program, natively());
    }
  }
}

TEST(NativeComplex, TakesDoublesAndMixedOperands) {
  for (const auto program : kPrograms) {
    expect_as_eager(complex_leaves({{4, 6}, {4, 6}}, at::kComplexDouble), program, natively(1e-12));
  }
  const auto leaves = [] {
    torch::manual_seed(1);
    return Tensors{torch::randn({4, 6}).requires_grad_(), torch::randn({6}, at::kComplexDouble).requires_grad_(),
                   torch::randn({4, 1}, at::kComplexFloat).requires_grad_()};
  };
  const auto mixed = [](const Tensors& t) -> Tensors {
    const auto z = t[0] * t[1] + t[2] * 2.5;
    return {z, t[0] + c10::complex<double>(1, 2), (t[0] * t[2]).to(at::kComplexDouble) * t[1], torch::real(z) * t[0]};
  };
  expect_as_eager(leaves, mixed, natively(1e-5));
}

TEST(NativeComplex, TakesTensorsThatLieInMemoryInEveryWay) {
  testing::Inputs inputs;
  inputs.leaves = complex_leaves({{6, 8}, {8, 6}, {1, 8}});
  for (const int way : {0, 1, 2, 3}) {
    inputs.derive = [way](const Tensors& t) -> Tensors {
      if (way == 0) return {t[0], t[1].t()};
      if (way == 1) return {t[0].conj(), t[1].t().conj()};
      if (way == 2) return {t[0].slice(1, 1, 8, 2), t[2].expand({6, 8}).slice(1, 4)};
      return {torch::imag(t[0].conj()) * 1, t[0].slice(0, 2)};
    };
    const auto program = [way](const Tensors& t) -> Tensors {
      if (way == 3) return {t[0] * 2 + 1, (t[1] * t[1].conj()).exp()};
      return {(t[0] * t[1].conj() + t[1]).exp(), t[0].conj() * 2, t[0].conj().sum(0) + t[1].mean(0)};
    };
    expect_as_eager(inputs, program, natively());
  }
}

// As functions of the parts, which differences are taken of.
TEST(NativeComplex, GradientsAreThoseOfDifferences) {
  torch::manual_seed(7);
  const auto leaf = [] { return torch::randn({2, 3, 2}, torch::kDouble).requires_grad_(); };
  AotOptions options;
  options.backend = "native";
  for (const auto program : kPrograms) {
    const auto of_parts = [program](const Tensors& t) {
      Tensors results;
      for (const at::Tensor& result : program({torch::view_as_complex(t[0]), torch::view_as_complex(t[1])})) {
        if (result.is_complex()) results.push_back(torch::view_as_real(result.resolve_conj()));
        if (result.is_floating_point()) results.push_back(result);
      }
      return results;
    };
    testing::expect_gradients_right({leaf(), leaf()}, of_parts, /*second_order=*/true, options);
  }
}

TEST(NativeComplex, KernelsReadThroughConjugates) {
  test::GraphBuilder builder;
  const Value x = builder.input(torch::randn({64, 8}, torch::kComplexFloat));
  const Value conjugate = builder.node("aten._conj", {builder.node("aten.t", {x})});
  const Value turned = builder.node("aten.t", {conjugate});
  const Value y = builder.node("aten.mul.Tensor", {turned, x});
  const Value z = builder.node("aten.exp", {builder.node("aten.add.Tensor", {y, turned})});
  const Graph graph = fuse(in_kernel_operators(builder.finish({z, conjugate})));
  int kernels = 0;
  for (const Node& node : graph.nodes()) {
    if (!is_fused(node)) continue;
    ++kernels;
    for (const Value input : group_of(node, "inputs")) {
      const Node* const maker = graph.producer(input);
      EXPECT_TRUE(maker == nullptr || maker->op.name() != "aten._conj") << graph.code();
    }
  }
  EXPECT_EQ(kernels, 1) << graph.code();
}

TEST(NativeComplex, ChecksKernelsOfComplexNumbers) {
  const KernelCheckScope scope;
  expect_as_eager(complex_leaves({{40, 50}, {40, 50}}), arithmetic, natively());
}

}  // namespace
}  // namespace diptych
