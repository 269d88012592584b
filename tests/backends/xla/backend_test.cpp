// What the backend does around its programs: parts that fall back, layouts, constants, sizes that change.
#include <cmath>

#include "backends/xla/xla_check.h"
#include "diptych/backends/fallback.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_lowered;
using testing::XlaCheck;

TEST(XlaBackend, RunsAGraph) {
  XlaCheck check;
  const Value x = check.input(at::randn({4, 3})), w = check.input(at::randn({3, 2})), b = check.input(at::randn({2}));
  const Value y = check.node("aten.tanh", {check.node("aten.add.Tensor", {check.node("aten.mm", {x, w}), b})});
  check.expect_eager({y, check.node("aten.sum", {y}), x, y});
}

TEST(XlaBackend, KeepsTheLayoutOfResults) {
  expect_lowered("aten.exp", {at::randn({3, 4}).t()});
  expect_lowered("aten.add.Tensor", {at::randn({2, 3, 4}).permute({2, 0, 1}), at::randn({4, 2, 3})});
  expect_lowered("aten.t", {at::randn({3, 4})});
  expect_lowered("aten.exp", {at::randn({3, 8}).slice(1, 0, 8, 2)});
  expect_lowered("aten.exp", {at::randn({3, 1}).expand({3, 4})});
  expect_lowered("aten.exp", {at::randn({4, 3}).t().unsqueeze(1)});
  expect_lowered("aten.exp", {at::randn({4, 0}).t()});
  expect_lowered("aten.exp", {at::randn({3, 1, 4}).permute({2, 1, 0})});
}

TEST(XlaBackend, ReadsLazyViews) {
  const at::Tensor x = at::randn({3}, at::kComplexFloat);
  expect_lowered("aten.mul.Tensor", {x.conj(), x});
}

TEST(XlaBackend, TakesEveryDtype) {
  for (const auto dtype : {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16, at::kFloat,
                           at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
    const at::Tensor x = at::arange(6).reshape({2, 3}).to(dtype);
    expect_lowered("aten.add.Tensor", {x, x});
  }
  expect_lowered("aten.mul.Tensor", {at::ones({2}, at::kBool), at::zeros({2}, at::kBool)});
}

TEST(XlaBackend, EmptyTensorsAndScalars) {
  expect_lowered("aten.exp", {at::randn({0, 3})});
  expect_lowered("aten.sum", {at::randn({0})});
  expect_lowered("aten.exp", {at::randn({})});
}

TEST(XlaBackend, ResultsOutliveTheProgramAndAreWritable) {
  test::GraphBuilder builder;
  const Value x = builder.input(at::ones({1000}));
  const Graph graph = builder.finish({builder.node("aten.exp", {x})});
  at::Tensor result = XlaBackend().compile(graph)->run({at::ones({1000})}).at(0);
  result.add_(1);
  EXPECT_TRUE(at::allclose(result, at::ones({1000}).exp() + 1));
  result.resize_({2000});
  EXPECT_EQ(result.numel(), 2000);
}

// Note [Packed weights]: an operator must read the weights that are there now.
void expect_weights_read_anew(const std::string& op, const at::Tensor& x, at::Tensor w,
                              std::vector<Operand> rest = {}) {
  SCOPED_TRACE(op);
  test::GraphBuilder builder;
  std::vector<Operand> operands{builder.input(x), builder.input(w)};
  operands.insert(operands.end(), rest.begin(), rest.end());
  const Value product = builder.node(op, std::move(operands));
  const at::Tensor first = builder.example(product).clone();
  const auto executable = XlaBackend().compile(builder.finish({product}));
  for (int run = 0; run < 3; ++run) {
    const double factor = std::pow(-2, run);
    EXPECT_TRUE(at::allclose(executable->run({x, w}).at(0), first * factor, 1e-3, 1e-3)) << "run " << run;
    w.mul_(-2);
  }
}

TEST(XlaBackend, WeightsMayChangeInPlaceBetweenRuns) {
  const auto list = [](std::vector<int64_t> values) { return c10::IValue(std::move(values)); };
  expect_weights_read_anew("aten.mm", at::randn({1024, 512}), at::randn({512, 128}));
  expect_weights_read_anew("aten.mm", at::randn({1024, 512}), at::randn({128, 512}).t());
  expect_weights_read_anew("aten.mm", at::randn({512, 1024}).t(), at::randn({512, 128}));
  expect_weights_read_anew("aten.mv", at::randn({1024, 512}), at::randn({512}));
  expect_weights_read_anew("aten.linear", at::randn({4, 256, 512}), at::randn({128, 512}));
  expect_weights_read_anew("aten.bmm", at::randn({8, 128, 64}), at::randn({8, 64, 128}));
  for (const int64_t window : {1, 3}) {
    expect_weights_read_anew(
        "aten.convolution", at::randn({8, 64, 16, 16}), at::randn({64, 64, window, window}),
        {Value{}, list({1, 1}), list({0, 0}), list({1, 1}), c10::IValue(false), list({0, 0}), c10::IValue(1)});
  }
}

TEST(XlaBackend, WhatHasNoLoweringFallsBack) {
  test::GraphBuilder builder;
  const Value x = builder.input(at::randn({3, 3}));
  const Value s = builder.node("aten.exp", {x});
  const Value inverse = builder.node("aten.inverse", {s});
  const Value y = builder.node("aten.mm", {inverse, x});
  const Graph graph = builder.finish({y});
  const auto executable = compile_with_fallback(XlaBackend(), graph);
  ASSERT_EQ(fallback_nodes(*executable).size(), 1U);
  EXPECT_EQ(fallback_nodes(*executable)[0].index, 1U);
  EXPECT_TRUE(at::allclose(executable->run({builder.example(x)}).at(0), builder.example(y), 1e-4, 1e-4));
}

// A program runs on after it was started, and reads a copy of an input that lies otherwise than programs take it.
TEST(XlaBackend, CopiesOfInputsLiveUntilTheProgramHasRun) {
  for (int run = 0; run < 20; ++run) {
    testing::XlaCheck check;
    const Value x = check.input(at::full({400, 1}, (run + 0.5) / 20).expand({400, 500}));
    const Value y = check.node("aten.exp", {x});
    check.expect_eager({y, check.node("aten.sin", {y}), check.node("aten.tanh", {x})});
  }
}

}  // namespace
}  // namespace diptych
