// What backend "native" says of its kernels: texts, bytes, times, and why parts are apart.
#include "diptych/native/native_graph.h"

#include <fmt/format.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <array>
#include <random>
#include <set>

#include "backends/native/native_case.h"
#include "backends/native/parse_kernel.h"
#include "diptych/backends/builtin_backends.h"
#include "diptych/backward/backward_capture.h"
#include "diptych/backward/step.h"
#include "diptych/compile/aot.h"
#include "diptych/native/report/kernel_work.h"
#include "interpreter/graph_builder.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using testing::expect_contains;
using testing::Tensors;

using Function = std::function<at::Tensor(const Tensors&)>;

std::vector<NativeGraph> graphs_of(const Function& function, const Tensors& inputs, bool backward = false) {
  const auto compiled = aot_function([&](const Tensors& tensors) { return function(tensors); }, {.backend = "native"});
  const at::Tensor result = compiled(inputs);
  if (backward) result.sum().backward();
  return compiled.native_graphs();
}

// softmax(x) w, and what follows.
Tensors inputs_of_block() { return {torch::ones({32, 16}), torch::ones({16, 16})}; }
at::Tensor block(const Tensors& t) { return torch::silu(torch::softmax(t[0], 1).mm(t[1]) + t[0]); }

TEST(NativeGraph, ShowsItsKernels) {
  const auto graphs = graphs_of(block, inputs_of_block());
  ASSERT_EQ(graphs.size(), 1U);
  const NativeGraph& graph = graphs[0];
  EXPECT_EQ(graph.name(), "forward");
  ASSERT_EQ(graph.kernels().size(), 2U);
  const NativeKernel& softmax = graph.kernels()[0];
  EXPECT_EQ(softmax.name(), "fused_amax_sub_exp_sum_div");
  EXPECT_EQ(softmax.nodes().nodes().size(), 5U);
  EXPECT_EQ(softmax.problem(), "");
  expect_contains(softmax.code(), {"kernel fused_amax_sub_exp_sum_div", "reduce max", "store y0"});
  expect_contains(softmax.llvm(), {"define void @fused_amax_sub_exp_sum_div", "fmul"});
  expect_contains(softmax.assembly(), {"fused_amax_sub_exp_sum_div:", "ret"});
  EXPECT_EQ(graph.code(), softmax.code() + "\n" + graph.kernels()[1].code());
  expect_contains(graph.graph().code(), {"hop.fused", "aten.mm"});
}

TEST(NativeGraph, PrintsATable) {
  EXPECT_EQ(graphs_of(block, inputs_of_block())[0].table(),
            R"(kernel                        fuses                        read  written  flops
0 fused_amax_sub_exp_sum_div  amax, sub, exp, sum, div  2.0 KiB  2.0 KiB   2560
1 fused_add_silu              add, silu                 4.0 KiB  2.0 KiB   2560
forward: 2 kernels of 7 nodes; LibTorch runs mm
memory: at most 4.0 KiB of results at once, 2.0 KiB of them outlive the run
)");
}

TEST(NativeGraph, ExplainsWhyKernelsAreApart) {
  EXPECT_EQ(graphs_of(block, inputs_of_block())[0].explain(),
            R"(kernel                        fuses                     reads  writes
0 fused_amax_sub_exp_sum_div  amax, sub, exp, sum, div      1       1
1 fused_add_silu              add, silu                     2       1

from                          to                value       why they are two
0 fused_amax_sub_exp_sum_div  aten.mm           f32[32,16]  aten.mm: no operator of kernels
aten.mm                       1 fused_add_silu  f32[32,16]  aten.mm: no operator of kernels
)");
  // A sum of all that every element needs ends a kernel.
  const auto normalized = [](const Tensors& t) { return torch::relu(t[0] / (t[0] * t[0]).sum()); };
  const std::string why = graphs_of(normalized, {torch::ones({300, 300})})[0].explain();
  expect_contains(why, {"0 fused_mul_sum  1 fused_div_relu  f32[]", "too few rows for several threads"});
}

TEST(NativeGraph, DrawsKernelsWithTheirNodes) {
  const std::string page = graphs_of(block, inputs_of_block())[0].html();
  expect_contains(page, {R"("t":"fused_add_silu")", R"("g":[["add.Tensor","f32[32,16]"],["silu","f32[32,16]"]])"});
}

TEST(NativeGraph, HasBackwardsAndBodiesOfLoops) {
  const auto graphs = graphs_of([](const Tensors& t) { return torch::tanh(t[0] * t[1]); },
                                {torch::ones({4, 6}).requires_grad_(), torch::ones({4, 6})}, /*backward=*/true);
  ASSERT_EQ(graphs.size(), 2U);
  EXPECT_EQ(graphs[1].name(), "backward");
  EXPECT_EQ(graphs[1].kernels().size(), 1U);
}

TEST(NativeGraph, IsOneForAllSizes) {
  const auto compiled =
      aot_function([](const at::Tensor& x) { return torch::tanh(x * x); }, {.backend = "native", .dynamic = true});
  for (const int64_t size : {5, 6, 7, 8}) (void)compiled(torch::ones({size, 3}));
  EXPECT_EQ(compiled.native_graphs().size(), compiled.captures().size());
  // Counted at the sizes that were traced.
  EXPECT_GT(compiled.native_graphs().back().kernels()[0].work().bytes_read, 3 * 4);
}

TEST(NativeGraph, IsNoneOfOtherBackends) {
  const auto compiled = aot_function([](const at::Tensor& x) { return x * x; }, {.backend = "interpreter"});
  (void)compiled(torch::ones({3}));
  EXPECT_TRUE(compiled.native_graphs().empty());
}

// A loss of leaves whose backward has kernels, and none of a compiled function.
at::Tensor eager_loss(const Tensors& t) { return block(t).square().mean(); }
Tensors leaves_of_block() { return {torch::ones({32, 16}).requires_grad_(), torch::ones({16, 16}).requires_grad_()}; }

TEST(NativeGraph, IsOfCapturedBackwards) {
  backward_capture::reset();
  const Tensors t = leaves_of_block();
  const BackwardCapture outer({.backend = "native"});
  {
    const BackwardCapture capture({.backend = "native"});
    EXPECT_TRUE(capture.native_graphs().empty());
    for (int i = 0; i < 2; ++i) eager_loss(t).backward();
    const auto graphs = capture.native_graphs();
    ASSERT_EQ(graphs.size(), 1U);
    EXPECT_EQ(graphs[0].name(), "backward");
    ASSERT_FALSE(graphs[0].kernels().empty());
    EXPECT_NE(graphs[0].code(), "");
    EXPECT_EQ(graphs[0].code(), backward_capture::native_graphs().at(0).code());
    expect_contains(graphs[0].table(), {graphs[0].kernels()[0].name(), "LibTorch runs", "mm", "memory: at most "});
    expect_contains(graphs[0].graph().code(), {"hop.fused", "aten.mm"});
  }
  (t[0] * t[0]).tanh().sum().backward();
  const auto graphs = outer.native_graphs();
  ASSERT_EQ(graphs.size(), 2U);  // the most recent first
  EXPECT_EQ(graphs[0].kernels().size(), 1U) << graphs[0].table();
  eager_loss(t).backward();
  EXPECT_EQ(outer.native_graphs().at(0).code(), graphs[1].code());
  backward_capture::reset();
  EXPECT_TRUE(backward_capture::native_graphs().empty());
  EXPECT_EQ(outer.native_graphs().size(), 1U);  // that of the last run, which last_graph() is asked for
}

TEST(NativeGraph, IsOfEachStretchBetweenHooks) {
  backward_capture::reset();
  const Tensors t = leaves_of_block();
  const BackwardCapture capture({.backend = "native"});
  const at::Tensor y = (t[0] * t[0]).tanh();
  y.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
  (y * y).sin().sum().backward();
  const auto graphs = capture.native_graphs();
  ASSERT_EQ(graphs.size(), 2U);
  for (const NativeGraph& graph : graphs) EXPECT_FALSE(graph.kernels().empty()) << graph.graph().code();
}

TEST(NativeGraph, OfCapturedBackwardsIsNoneOfOtherBackends) {
  backward_capture::reset();
  const BackwardCapture capture({.backend = "interpreter"});
  eager_loss(leaves_of_block()).backward();
  EXPECT_EQ(capture.stats().captures, 1);
  EXPECT_TRUE(capture.native_graphs().empty());
}

TEST(NativeGraph, IsOfTrainingSteps) {
  backward_capture::reset();
  const Tensors t = leaves_of_block();
  torch::optim::SGD optimizer(t, torch::optim::SGDOptions(0.1)), other({t[0]}, torch::optim::SGDOptions(0.1));
  const auto step = capture_step(optimizer, {.max_gradient_norm = 1.0, .backend = "native"});
  const auto unused = capture_step(other, {.backend = "native"});
  EXPECT_TRUE(step.native_graphs().empty());
  step(eager_loss(t));
  const TimeKernels timed;
  step(eager_loss(t));
  const auto graphs = step.native_graphs();
  ASSERT_EQ(graphs.size(), 1U);
  EXPECT_EQ(graphs[0].name(), "backward");
  ASSERT_FALSE(graphs[0].kernels().empty());
  EXPECT_EQ(graphs[0].kernels()[0].timed_calls(), 1);
  expect_contains(graphs[0].table(), {"\nbackward: ", "median us"});
  EXPECT_TRUE(unused.native_graphs().empty());
}

TEST(NativeKernel, SaysWhyThereIsNone) {
  GraphBuilder builder("body");
  const Value x = builder.input(torch::ones({3, 4}));
  const NativeKernel kernel(std::make_shared<const Graph>(
      builder.finish({builder.node("aten.mm", {x, builder.input(torch::ones({4, 2}))})})));
  EXPECT_NE(kernel.problem(), "");
  EXPECT_EQ(kernel.code() + kernel.llvm() + kernel.assembly(), "");
  EXPECT_EQ(kernel.work().bytes_read + kernel.work().bytes_written + kernel.work().flops, 0);
}

TEST(TimeKernels, TimesCallsWhileItLives) {
  const auto compiled = aot_function([](const at::Tensor& x) { return torch::tanh(x * x); }, {.backend = "native"});
  const at::Tensor x = torch::ones({64, 64});
  (void)compiled(x);
  EXPECT_EQ(compiled.native_graphs()[0].kernels()[0].timed_calls(), 0);
  {
    const TimeKernels timed;
    for (int i = 0; i < 3; ++i) (void)compiled(x);
  }
  (void)compiled(x);
  const NativeGraph graph = compiled.native_graphs()[0];
  EXPECT_EQ(graph.kernels()[0].timed_calls(), 3);
  EXPECT_GT(graph.kernels()[0].median_us(), 0);
  expect_contains(graph.table(), {"median us", "% of "});
}

// The kernel of a function, all of which is one.
KernelWork work_of_one(const Function& function, const Tensors& inputs) {
  const auto graphs = graphs_of(function, inputs);
  EXPECT_EQ(graphs[0].kernels().size(), 1U) << graphs[0].graph().code();
  return graphs[0].kernels()[0].work();
}

TEST(KernelWork, CountsElementsOnce) {
  const auto expect = [](const Function& function, const Tensors& inputs, int64_t read, int64_t written,
                         int64_t flops) {
    const KernelWork work = work_of_one(function, inputs);
    EXPECT_EQ(work.bytes_read, read);
    EXPECT_EQ(work.bytes_written, written);
    EXPECT_EQ(work.flops, flops);
  };
  const Tensors two{torch::ones({6, 4}), torch::ones({4})};
  expect([](const Tensors& t) { return torch::tanh(t[0] * t[1]); }, two, 4 * (24 + 4), 4 * 24, 2 * 24);
  expect(
      [](const Tensors& t) {
        return torch::tanh(torch::cat({t[0], t[0]}, 1) * 2);
      },
      {torch::ones({3, 4})}, 48, 96, 48);
  expect([](const Tensors& t) { return (t[0] * t[0]).sum(-1); }, {torch::ones({8, 4}, torch::kDouble)}, 256, 64, 64);
  // Of a table no more than what is looked up, and no more than all of it.
  const auto look_up = [](const Tensors& t) { return torch::tanh(torch::embedding(t[0], t[1]) * 2); };
  constexpr int64_t kCheck = 1;  // whether an index is out of range
  expect(look_up, {torch::ones({100, 4}), torch::zeros({3}, torch::kLong)}, 3 * 8 + 3 * 16, 48 + kCheck, 24);
  expect(look_up, {torch::ones({2, 4}), torch::zeros({3}, torch::kLong)}, 3 * 8 + 2 * 16, 48 + kCheck, 24);
}

// A random affine access of [0, 6) x [0, 5), as text and by its elements.
std::string random_access(std::mt19937& random, std::set<int64_t>& reached) {
  const auto pick = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); };
  const std::array<int64_t, 2> steps{pick(12) - 2, pick(12) - 2};
  const int64_t first = 30 + pick(20);
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 5; ++j) reached.insert(first + i * steps[0] + j * steps[1]);
  }
  std::string text = std::to_string(first);
  for (size_t dim = 0; dim < 2; ++dim) {
    if (steps[dim] == 0) continue;
    text += fmt::format(" {} {}*d{}", steps[dim] < 0 ? '-' : '+', std::abs(steps[dim]), dim);
  }
  return text;
}

TEST(KernelWork, CountsWhatSeveralMapsShareOnce) {
  GraphBuilder builder("body");
  const Value x = builder.input(torch::ones({200})), y = builder.input(torch::ones({6, 5}));
  const Graph body = builder.finish({builder.node("aten.relu", {y})});
  (void)x;
  std::mt19937 random(7);
  for (int i = 0; i < 100; ++i) {
    std::set<int64_t> reached;
    const std::string a = random_access(random, reached), b = random_access(random, reached);
    const Kernel kernel =
        parse_kernel(fmt::format("kernel k(d0=6, d1=5) {{\n x0 : f32\n x1 : f32\n y0 : f32\n %0 : f32 = load x0[{}]\n"
                                 " %1 : f32 = load x0[{}]\n %2 : f32 = add %0, %1\n store y0[5*d0 + d1] = %2\n}}",
                                 a, b));
    const KernelWork work = work_of(kernel, body);
    EXPECT_EQ(work.bytes_read, 4 * static_cast<int64_t>(reached.size())) << a << " and " << b;
    EXPECT_EQ(work.bytes_written, 4 * 30);
  }
}

}  // namespace
}  // namespace diptych
