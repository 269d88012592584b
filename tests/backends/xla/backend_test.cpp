// What the backend does around its programs: parts that fall back, layouts, constants, sizes that change.
#include <fmt/format.h>
#include <cmath>
#include <limits>

#include "backends/xla/xla_check.h"
#include "diptych/backend/fallback.h"
#include "diptych/graph/parse.h"
#include "testing/expect_error.h"

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

// An executable that is called by itself gets no more checks than its own.
TEST(XlaBackend, InputsThatTheProgramWasNotCompiledFor) {
  const auto executable = XlaBackend().compile(parse(R"(graph f(%0 x : f32[2,3], %1 y : f32[2,3])
  %2 : f32[2,3] = aten.add.Tensor(%0, %1)
  return (%2 z)
)"));
  const at::Tensor x = at::ones({2, 3});
  const auto refuses = [&](const at::Tensor& y, const std::string& got) {
    testing::expect_error(
        [&] {
          (void)executable->run({x, y});
        },
        {"[xla] input 1 of graph 'f' is " + got + ", expected", "f32[2,3]"});
  };
  refuses(at::ones({3, 2}), "f32[3,2]");
  refuses(at::ones({6}), "f32[6]");
  refuses(at::ones({}), "f32[]");
  refuses(at::ones({2, 3}, at::kInt), "i32[2,3]");
  refuses(at::ones({2, 3}, at::kDouble), "f64[2,3]");
  refuses(at::ones({2, 3}, at::kMeta), "f32[2,3] on meta");
  refuses(at::ones({2, 3}).to_sparse(), "a tensor of layout Sparse");
  refuses(at::quantize_per_tensor(x, 1, 0, at::kQInt8), "a tensor of dtype QInt8");
  testing::expect_error([&] { (void)executable->run({x, at::Tensor()}); }, "input 1 of graph 'f' is undefined");
  testing::expect_error([&] { (void)executable->run({x}); }, "graph 'f' got 1 inputs, expected 2");
  EXPECT_TRUE(at::equal(executable->run({x, x}).at(0), at::full({2, 3}, 2.0)));
}

// The bits of results, for tolerances hide small numbers.
TEST(XlaBackend, NeighboursOfSmallNumbers) {
  const double kInf = testing::kInf;
  const at::Tensor numbers =
      at::tensor({0., -0., 1., -1., 1.5, -3.25, 1e-40, -1e-45, 1e-310, 65504., 3e38, 1e300, kInf, -kInf}, at::kDouble);
  for (const auto& [dtype, bits] :
       {std::pair{at::kFloat, at::kInt}, {at::kDouble, at::kLong}, {at::kBFloat16, at::kShort}}) {
    XlaCheck check;
    const Value x = check.input(numbers.to(dtype)), y = check.input(numbers.to(dtype).unsqueeze(1));
    check.expect_eager({check.node("aten.view.dtype", {check.node("aten.nextafter", {x, y}), c10::IValue(bits)})});
  }
}

TEST(XlaBackend, NumbersThatAreNone) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const at::Tensor x = at::tensor({nan, infinity, -infinity, 1.0});
  for (const char* op : {"aten.exp", "aten.relu", "aten.sum", "aten.max", "aten.tanh"}) expect_lowered(op, {x});
  expect_lowered("aten.maximum", {x, at::ones({4}, at::kDouble)});
}

// The graph holds them, programs do not: their nodes are the interpreter's.
TEST(XlaBackend, DtypesThatXlaDoesNotHave) {
  for (const at::ScalarType dtype : {at::kComplexHalf, at::kFloat8_e5m2, at::kFloat8_e4m3fn, at::kUInt16}) {
    test::GraphBuilder builder;
    const Value x = builder.input(at::zeros({3}, dtype));
    const Value y = builder.node("aten.clone", {x});
    const Graph graph = builder.finish({y, builder.node("aten.exp", {builder.input(at::ones({3}))})});
    EXPECT_FALSE(XlaBackend().supports(graph, graph.nodes()[0]));
    const auto executable = compile_with_fallback(XlaBackend(), graph);
    ASSERT_EQ(fallback_nodes(*executable).size(), 1U) << graph.code();
    EXPECT_EQ(executable->run({at::zeros({3}, dtype), at::ones({3})}).at(0).scalar_type(), dtype);
    testing::expect_error([&] { (void)XlaBackend().compile(graph); },
                          fmt::format("[xla] got a tensor of dtype {}, which", c10::toString(dtype)));
  }
}

TEST(XlaBackend, AResultThatDoesNotFitInMemory) {
  const auto huge = XlaBackend().compile(parse(R"(graph f(%0 x : f32[1])
  %1 : f32[1099511627776] = aten.repeat(%0, [1099511627776])
  return (%1 y)
)"));
  const at::Tensor x = at::ones({1});
  for (int run = 0; run < 2; ++run) {
    testing::expect_error([&] { (void)huge->run({x}); }, {"[xla] running a program failed", "use smaller sizes"});
  }
  expect_lowered("aten.exp", {x});
}

// The last owner of an input may give it up in the call.
TEST(XlaBackend, InputsThatNobodyElseHolds) {
  const auto executable = XlaBackend().compile(parse(R"(graph f(%0 x : f32[1000,1000])
  %1 : f32[1000,1000] = aten.mm(%0, %0)
  %2 : f32[1000,1000] = aten.mm(%1, %0)
  return (%2 y)
)"));
  for (int run = 0; run < 3; ++run) {
    std::vector<at::Tensor> inputs;
    inputs.push_back(at::full({1000, 1000}, 0.5));
    const at::Tensor result = executable->run(std::move(inputs)).at(0);
    const at::Tensor unrelated = at::full({1000, 1000}, -7.0);  // may take the memory that was given up
    EXPECT_TRUE(result.eq(125000).all().item<bool>());
  }
}

// Results were computed from the values that an input had when the call returned.
TEST(XlaBackend, AnInputThatChangesAfterTheCall) {
  const auto executable = XlaBackend().compile(parse(R"(graph f(%0 x : f32[1000,1000])
  %1 : f32[1000,1000] = aten.mm(%0, %0)
  return (%1 y)
)"));
  const at::Tensor x = at::full({1000, 1000}, 0.5);
  const at::Tensor result = executable->run({x}).at(0);
  x.fill_(3);
  EXPECT_TRUE(result.eq(250).all().item<bool>());
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
