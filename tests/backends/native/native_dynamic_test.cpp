// Graphs with dynamic sizes as native kernels: one for all sizes.
#include <fmt/format.h>
#include <torch/nn/functional.h>

#include "backends/native/native_case.h"
#include "diptych/base/switches.h"
#include "diptych/native/call/body_sizes.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/native_backend.h"
#include "diptych/passes/unify_sizes.h"
#include "testing/call_checks.h"
#include "testing/graph_writer.h"

namespace diptych {

using namespace detail;
namespace {

namespace F = torch::nn::functional;
using testing::expect_error;
using testing::GraphWriter;
using testing::ints;
using testing::Tensors;

// What writes a graph at two sizes.
using Write = std::function<std::vector<Value>(GraphWriter&, int64_t, int64_t)>;

GraphWriter written(const Write& write, int64_t s0, int64_t s1) {
  torch::manual_seed(s0 + 100 * s1);
  GraphWriter writer("dynamic");
  writer.finish(write(writer, s0, s1));
  return writer;
}

Graph at_all_sizes_of(const Write& write) {
  std::vector<Graph> graphs;
  std::vector<SymbolValues> points;
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{
           {50, 70}, {3, 11}, {10, 5}, {7, 13}, {16, 9}, {11, 3}, {13, 17}, {9, 15}}) {
    points.push_back({a, b});
    graphs.push_back(written(write, a, b).graph());
  }
  std::string why;
  auto graph = unify_sizes(graphs, points, 2, &why);
  EXPECT_TRUE(graph) << why;
  return *std::move(graph);
}

// Compiles a graph once and compares it with eager at many sizes. Returns its kernels.
std::vector<NativeKernel> expect_at_all_sizes(const Write& write, double tolerance = 1e-5) {
  size_t made = 0;
  set_log("kernels");
  set_log_sink([&](std::string_view line) { made += line.find("made fused") != std::string_view::npos ? 1 : 0; });
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(at_all_sizes_of(write)));
  for (const auto& [a, b] : std::vector<std::pair<int64_t, int64_t>>{
           {50, 70}, {2, 3}, {1, 5}, {4, 1}, {1, 1}, {33, 64}, {128, 17}, {3, 4100}, {700, 9}, {0, 4}, {4, 0}}) {
    SCOPED_TRACE(fmt::format("s0={}, s1={}", a, b));
    const GraphWriter writer = written(write, a, b);
    auto inputs = writer.inputs();
    const auto found = executable->run(std::move(inputs));
    EXPECT_TRUE(testing::same_tensors(found, writer.tensors(writer.graph().outputs()),
                                      {.rtol = tolerance, .atol = tolerance, .equal_nan = true}))
        << fused_graph(*executable).code();
  }
  set_log_sink({});
  set_log("");
  const auto kernels = native_kernels(*executable);
  EXPECT_EQ(made, kernels.size()) << "kernels were made for single sizes";
  return kernels;
}

void expect_one_kernel(const std::vector<NativeKernel>& kernels) {
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].problem(), "");
}

TEST(NativeDynamic, AChainIsOneKernelForAllSizes) {
  expect_one_kernel(expect_at_all_sizes([](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
    const Value x = w.input(torch::randn({s0, s1})), y = w.input(torch::randn({s1})),
                z = w.input(torch::randn({s0, 1}));
    return {w.call("aten.mul.Tensor", {w.call("aten.tanh", {w.call("aten.add.Tensor", {x, y})}), z})};
  }));
}

TEST(NativeDynamic, RowsOfDynamicLengthAreOneKernel) {
  expect_one_kernel(expect_at_all_sizes([](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
    const Value x = w.input(torch::randn({s0, s1}));
    const Value y = w.call("aten._softmax", {w.call("aten.sin", {x}), c10::IValue(1), c10::IValue(false)});
    return {w.call("aten.mul.Tensor", {y, x})};
  }));
}

TEST(NativeDynamic, BatchAndTimeMergeWithinAKernel) {
  expect_one_kernel(expect_at_all_sizes([](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
    const Value x = w.input(torch::randn({s0, s1, 24})), weight = w.input(torch::randn({24}));
    const Value bias = w.input(torch::randn({24}));
    const auto normed = w.call_all("aten.native_layer_norm", {x, ints({24}), weight, bias, c10::IValue(1e-5)});
    const Value rows = w.call("aten.view", {normed[0], ints({s0 * s1, 24})});
    return {w.call("aten.relu", {rows}), normed[1], normed[2]};
  }));
}

TEST(NativeDynamic, SumsOverABatchOfAnySizeAreOneKernel) {
  expect_one_kernel(expect_at_all_sizes(
      [](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
        const Value g = w.input(torch::randn({s0, s1, 48})), x = w.input(torch::randn({s0, s1, 48}));
        const Value t = w.call("aten.mul.Tensor", {g, w.call("aten.tanh", {x})});
        return {t, w.call("aten.sum.dim_IntList", {t, ints({0, 1})})};
      },
      1e-4));
}

TEST(NativeDynamic, GradientsOfMeansDivideByTheSizesOfTheCall) {
  for (const int64_t reduction : {0, 1, 2}) {
    expect_one_kernel(expect_at_all_sizes(
        [&](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
          const Value x = w.input(torch::randn({s0, s1})), y = w.input(torch::randn({s0, s1}));
          const Value g = reduction == 0 ? w.input(torch::randn({s0, s1})) : w.input(torch::randn({}));
          const auto how = c10::IValue(reduction);
          return {w.call("aten.mse_loss_backward", {g, x, y, how}),
                  w.call("aten.smooth_l1_loss_backward", {g, x, y, how, c10::IValue(0.7)})};
        },
        1e-5));
  }
}

TEST(NativeDynamic, AMeanDividesByTheSizesOfTheCall) {
  expect_one_kernel(expect_at_all_sizes(
      [](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
        const Value x = w.input(torch::randn({s0, s1})), y = w.input(torch::randn({s0, s1}));
        const Value d = w.call("aten.sub.Tensor", {x, y});
        return {w.call("aten.mean", {w.call("aten.mul.Tensor", {d, d})})};
      },
      1e-4));
}

TEST(NativeDynamic, PartsOfATableAreReadUpToADynamicEnd) {
  const Write write = [](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
    const Value x = w.input(torch::randn({s0, s1, 8})), table = w.input(torch::randn({5000, 8}));
    const Value part = w.call("aten.slice.Tensor", {table, c10::IValue(0), c10::IValue(0), c10::IValue(s1)});
    return {w.call("aten.tanh", {w.call("aten.add.Tensor", {x, part})})};
  };
  expect_one_kernel(expect_at_all_sizes(write));
  // Beyond the table: eager's error, and no reading there. Checks of calls would tell first that the slice is shorter.
  const testing::CallChecks off(false);
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(at_all_sizes_of(write)));
  expect_error([&] { executable->run({torch::randn({2, 5001, 8}), torch::randn({5000, 8})}); }, "5001");
}

TEST(NativeDynamic, SizesThatContradictEachOtherAreTheInterpretersError) {
  const Write write = [](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
    const Value x = w.input(torch::randn({s0, s1})), y = w.input(torch::randn({s0, s1}));
    return {w.call("aten.mul.Tensor", {w.call("aten.sin", {x}), y})};
  };
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(at_all_sizes_of(write)));
  expect_error([&] { executable->run({torch::randn({4, 6}), torch::randn({5, 6})}); }, "expected 4");
}

TEST(NativeDynamic, InputsOfOtherStridesAreCopied) {
  const Write write = [](GraphWriter& w, int64_t s0, int64_t s1) -> std::vector<Value> {
    const Value x = w.input(torch::randn({s0, s1}));
    return {w.call("aten.exp", {w.call("aten.sin", {x})})};
  };
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(at_all_sizes_of(write)));
  const auto x = torch::randn({6, 40}).t();
  EXPECT_TRUE(testing::same_tensors(executable->run({x}), {x.sin().exp()}, testing::within(1e-6)));
}

TEST(NativeDynamic, ABodyNeedsNoMoreThanItsInputsTell) {
  const SizeExpr s0 = SizeExpr::symbol("s0", 4), s1 = SizeExpr::symbol("s1", 6);
  Graph body("body");
  TensorMeta meta;
  meta.sizes = {s0 * s1, 8};
  meta.strides = {8, 1};
  const Value x = body.add_input(meta, {SlotKind::kArgument, "x"});
  body.set_outputs({x}, {{SlotKind::kOutput, "y"}});
  const BodySizes sizes(body);
  EXPECT_TRUE(sizes.is_dynamic());
  EXPECT_EQ(sizes.problem({s0 * s1, s0 * s1 * SizeExpr(8), 3}), std::nullopt);
  EXPECT_NE(sizes.problem({s0}), std::nullopt);
  const auto observed = sizes.observe({torch::zeros({10, 8})});
  EXPECT_EQ(sizes.values({s0 * s1, s0 * s1 * SizeExpr(8), 3}, observed), (std::vector<int64_t>{10, 80, 3}));
}

TEST(NativeDynamic, ATransformersLossAndGradientsAreEagers) {
  AotOptions options{.backend = "native", .dynamic = true};
  const auto loss = [](const Tensors& t) -> Tensors {
    const auto x = t[0];
    const int64_t batch = x.size(0), time = x.size(1);
    const auto normed = F::layer_norm(x + t[1].slice(0, 0, time), F::LayerNormFuncOptions({16}).weight(t[2]));
    const auto heads = [&](const at::Tensor& y) { return y.view({batch, time, 2, 8}).transpose(1, 2); };
    const auto scores = heads(normed).matmul(heads(x).transpose(-1, -2)) / std::sqrt(8.0);
    const auto mixed = scores.softmax(-1).matmul(heads(x)).transpose(1, 2).reshape({batch * time, 16});
    const auto logits = F::gelu(F::linear(mixed, t[3])).view({batch, time, 12});
    return {logits.log_softmax(-1).mean(), logits.sum({0, 1})};
  };
  const auto compiled = aot_function(loss, options);
  for (const auto& [batch, time] :
       std::vector<std::pair<int64_t, int64_t>>{{2, 5}, {3, 5}, {3, 9}, {4, 12}, {6, 7}, {2, 31}, {16, 33}}) {
    SCOPED_TRACE(fmt::format("{} x {}", batch, time));
    torch::manual_seed(batch + time);
    Tensors ours, eagers;
    for (const auto& size : std::vector<std::vector<int64_t>>{{batch, time, 16}, {64, 16}, {16}, {12, 16}}) {
      ours.push_back(torch::randn(size).requires_grad_());
      eagers.push_back(ours.back().detach().clone().requires_grad_());
    }
    const auto got = compiled(ours), expected = loss(eagers);
    EXPECT_TRUE(testing::same_tensors(got, expected, testing::within(1e-4)));
    (got[0] + got[1].mul(torch::arange(12)).mean()).backward();
    (expected[0] + expected[1].mul(torch::arange(12)).mean()).backward();
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(testing::same_tensor(ours[i].grad(), eagers[i].grad(), testing::within(1e-4))) << i;
    }
  }
}

}  // namespace
}  // namespace diptych
