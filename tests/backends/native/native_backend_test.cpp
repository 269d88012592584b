// Programs as native kernels, forward and backward, beside eager.
#include "diptych/native/native_backend.h"

#include <torch/nn/functional.h>

#include <thread>

#include "backends/native/native_case.h"
#include "backends/native/parse_kernel.h"
#include "diptych/base/switches.h"
#include "diptych/native/call/fused_call.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/call/overwritable_inputs.h"
#include "diptych/native/fusion/fused_node.h"
#include "interpreter/graph_builder.h"
#include "testing/eager_check.h"

namespace diptych {

using namespace detail;
namespace {

namespace F = torch::nn::functional;
using test::GraphBuilder;
using testing::expect_as_eager;
using testing::expect_error;
using testing::leaves_of;
using testing::natively;
using testing::Tensors;

TEST(NativeBackend, RunsAnMlp) {
  expect_as_eager(
      leaves_of({{16, 8}, {12, 8}, {12}, {5, 12}, {5}}),
      [](const Tensors& t) -> Tensors {
        const auto hidden = torch::relu(F::linear(t[0], t[1], t[2]));
        return {F::cross_entropy(F::linear(hidden, t[3], t[4]), torch::arange(16).remainder(5))};
      },
      natively());
}

TEST(NativeBackend, RunsABlockOfATransformer) {
  expect_as_eager(
      leaves_of({{4, 16, 24}, {24}, {24}, {72, 24}, {24, 24}, {96, 24}, {24, 96}}),
      [](const Tensors& t) -> Tensors {
        const auto norm = [&](const at::Tensor& x) {
          return F::layer_norm(x, F::LayerNormFuncOptions({24}).weight(t[1]).bias(t[2]));
        };
        const auto heads = [](const at::Tensor& x) { return x.view({4, 16, 3, 8}).transpose(1, 2); };
        const auto qkv = F::linear(norm(t[0]), t[3]).chunk(3, -1);
        const auto scores = heads(qkv[0]).matmul(heads(qkv[1]).transpose(-1, -2)) / std::sqrt(8.0);
        const auto is_later = torch::ones({16, 16}, torch::kBool).triu(1);
        const auto weights = scores.masked_fill(is_later, -std::numeric_limits<float>::infinity()).softmax(-1);
        const auto mixed = weights.matmul(heads(qkv[2])).transpose(1, 2).reshape({4, 16, 24});
        const auto x = t[0] + F::linear(mixed, t[4]);
        return {x + F::linear(F::gelu(F::linear(norm(x), t[5])), t[6])};
      },
      natively());
}

TEST(NativeBackend, DrawsWhatEagerDraws) {
  expect_as_eager(
      leaves_of({{32, 20}, {20}}),
      [](const Tensors& t) -> Tensors {
        const auto dropped = F::dropout(torch::tanh(t[0] * t[1]), F::DropoutFuncOptions().p(0.3));
        return {dropped * torch::rand({20}), dropped.sum()};
      },
      natively());
}

TEST(NativeBackend, RunsViewsAndBroadcasts) {
  expect_as_eager(
      leaves_of({{6, 4, 5}, {4, 1}, {5, 24}}),
      [](const Tensors& t) -> Tensors {
        const auto a = (t[0] * t[1]).sin();
        const auto b = a.permute({2, 0, 1}).reshape({5, 24}) + t[2];
        const auto c = b.select(0, 1).unsqueeze(0).expand({3, 24}).contiguous();
        return {b, c, a.transpose(0, 1), (b.t() * 2).flatten(), a.slice(1, 1, 3)};
      },
      natively());
}

TEST(NativeBackend, NormalizesBatches) {
  expect_as_eager(
      leaves_of({{8, 6, 5, 5}, {6}, {6}}),
      [](const Tensors& t) -> Tensors {
        const auto mean = torch::zeros({6}), variance = torch::ones({6});
        const auto y =
            F::batch_norm(t[0], mean, variance, F::BatchNormFuncOptions().weight(t[1]).bias(t[2]).training(true));
        return {torch::relu(y), mean.detach(), variance.detach()};
      },
      natively());
}

TEST(NativeBackend, RunsLoopsAndBranches) {
  expect_as_eager(
      leaves_of({{7, 3, 4}, {3, 4}, {4, 4}}),
      [](const Tensors& t) -> Tensors {
        const auto [last, all] = scan(
            [&](const at::Tensor& h, const at::Tensor& x) {
              const auto next = torch::tanh(h.matmul(t[2]) + x * 0.5) * 0.9;
              return std::make_pair(next, next.sigmoid() * x);
            },
            t[1], t[0]);
        const auto chosen = cond(
            last.sum().detach() > 0, [](const at::Tensor& x) { return (x * 2).tanh() + x; },
            [](const at::Tensor& x) { return (x * 3).sin() - x; }, last);
        return {all.sum(), chosen};
      },
      natively());
}

TEST(NativeBackend, RunsAWhileLoop) {
  expect_as_eager(
      leaves_of({{3, 4}}),
      [](const Tensors& t) -> Tensors {
        return {while_loop([](const at::Tensor& x) { return (x * x).sum() > 0.5; },
                           [](const at::Tensor& x) { return (x * 0.7).tanh() * 0.9; }, t[0])};
      },
      natively());
}

TEST(NativeBackend, ReadsNumbersAtOnePlaceAlone) {
  expect_as_eager(
      leaves_of({{3}}),
      [](const Tensors& t) -> Tensors {
        // Numbers written into a tensor one by one: constants that are selected by position.
        return {at::leaky_relu(torch::tensor({0.0F, -3.0F, 2.0F}), 0.1) * t[0]};
      },
      natively());
}

TEST(NativeBackend, WritesWhatEagerWrites) {
  expect_as_eager(
      [] {
        torch::manual_seed(2);
        return Tensors{torch::randn({4, 5}), torch::randn({4, 5}).requires_grad_()};
      },
      [](const Tensors& t) -> Tensors {
        const auto a = (t[1] * 2).tanh();
        t[0].mul_(0.5).add_(a.detach());
        t[0].select(0, 1).zero_();
        return {a * t[0] + t[0], t[0].exp()};
      },
      natively());
}

TEST(NativeBackend, RunsAllDtypes) {
  for (const auto dtype : {torch::kFloat, torch::kDouble, torch::kHalf, torch::kBFloat16}) {
    expect_as_eager(
        [dtype] {
          torch::manual_seed(3);
          return Tensors{torch::randn({9, 33}).to(dtype).requires_grad_(),
                         torch::randn({33}).to(dtype).requires_grad_()};
        },
        [](const Tensors& t) -> Tensors {
          const auto y = torch::gelu(t[0] * t[1] + 1).softmax(-1);
          const auto index = (t[0].detach() * 3).to(torch::kLong) * 2 + 1;
          return {y, y.sum(0), index, (index > 2).logical_and(t[0].detach() < 1)};
        },
        natively(c10::elementSize(dtype) == 2 ? 2e-2 : 2e-5));
  }
}

TEST(NativeBackend, ServesOtherSizes) {
  AotOptions options{.backend = "native", .dynamic = true};
  const auto f = aot_function([](const at::Tensor& x) { return (x.tanh() * x).softmax(-1).sum(0); }, options);
  for (const int64_t rows : {3, 4, 5, 6, 9}) {
    const auto x = torch::randn({rows, 7});
    const auto leaf = x.clone().requires_grad_(), ours = x.clone().requires_grad_();
    const auto weights = torch::arange(7.0);
    (f(ours) * weights).sum().backward();
    (((leaf.tanh() * leaf).softmax(-1).sum(0)) * weights).sum().backward();
    EXPECT_TRUE(testing::same_tensor(ours.grad(), leaf.grad(), testing::within(1e-5)));
  }
}

TEST(NativeBackend, DifferentiatesToSecondOrder) {
  torch::manual_seed(0);
  AotOptions options{.backend = "native"};
  testing::expect_gradients_right(
      {torch::randn({2, 3}, torch::kFloat64).requires_grad_(), torch::randn({2, 3}, torch::kFloat64).requires_grad_()},
      [](const Tensors& t) -> Tensors {
        return {(t[0] * t[1]).tanh() * t[0].exp(), t[0].softmax(-1) * t[1]};
      },
      /*second_order=*/true, options);
}

TEST(NativeBackend, ListsKernels) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({32, 16})), w = builder.input(torch::randn({16, 16}));
  const Value a = builder.node("aten._softmax", {x, c10::IValue(1), c10::IValue(false)});
  const Value b = builder.node("aten.mm", {a, w});
  const Value c = builder.node("aten.silu", {builder.node("aten.add.Tensor", {b, x})});
  const Graph graph = builder.finish({c});
  const auto executable = compiler_of(backend_by_name("native"))(graph);
  EXPECT_TRUE(testing::same_tensors(executable->run({builder.example(x), builder.example(w)}), {builder.example(c)},
                                    testing::within(1e-5)));
  const NativeBackend backend;
  const auto kernels = native_kernels(*backend.compile(backend.prepare(graph)));
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name(), "fused_amax_sub_exp_sum_div");
  EXPECT_EQ(kernels[0].nodes().nodes().size(), 5U);
  EXPECT_EQ(kernels[0].problem(), "");
  EXPECT_EQ(kernels[1].problem(), "");
}

// x.sin() * y of two inputs, as a body.
struct Product {
  Product() {
    const Value x = builder.input(torch::randn({4, 6})), y = builder.input(torch::randn({4, 6}));
    a = builder.node("aten.mul.Tensor", {builder.node("aten.sin", {x}), y});
    body = std::make_shared<const Graph>(builder.finish({a}));
  }
  static at::Tensor expected(const at::Tensor& x, const at::Tensor& y) { return x.sin() * y; }
  GraphBuilder builder;
  Value a;
  std::shared_ptr<const Graph> body;
};

TEST(NativeBackend, AWrongVariableOfTheEnvironmentIsTheUsersError) {
  const char* const before = getenv("DIPTYCH_KERNEL_CACHE");
  const auto was = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  setenv("DIPTYCH_KERNEL_CACHE", "off", 1);
  const auto compiled =
      aot_function([](const Tensors& t) -> Tensors { return {t[0].sin().exp() + 41.5}; }, {.backend = "native"});
  expect_error([&] { compiled(Tensors{torch::randn({7, 3})}); }, "[DIPTYCH_KERNEL_CACHE] got 'off', expected 0 or 1");
  was ? setenv("DIPTYCH_KERNEL_CACHE", was->c_str(), 1) : unsetenv("DIPTYCH_KERNEL_CACHE");
  EXPECT_EQ(compiled(Tensors{torch::zeros({7, 3})})[0].sizes(), at::IntArrayRef({7, 3}));
}

TEST(FusedCall, TakesTensorsThatLieOtherwise) {
  const Product product;
  const FusedCall call(product.body);
  const auto x = torch::randn({6, 4}).t(), y = torch::randn({4, 12}).slice(1, 0, 12, 2);
  EXPECT_TRUE(testing::same_tensor(call.run({x, y}, {})[0], Product::expected(x, y), testing::kClose));
  // What the kernel was not made for is run by the interpreter.
  const auto wide = torch::randn({2, 4, 6}), number = torch::randn({4, 6}, torch::kDouble);
  EXPECT_TRUE(testing::same_tensor(call.run({wide, y}, {})[0], Product::expected(wide, y), testing::kClose));
  EXPECT_TRUE(testing::same_tensor(call.run({number, x}, {})[0], Product::expected(number, x), testing::kClose));
  const auto negated = at::_neg_view(y);
  EXPECT_TRUE(testing::same_tensor(call.run({x, negated}, {})[0], Product::expected(x, negated), testing::kClose));
}

TEST(FusedCall, WritesOverWhatNobodyElseHolds) {
  const Product product;
  const FusedCall call(product.body);
  const auto x = torch::randn({4, 6}), y = torch::randn({4, 6});
  const auto kept = y.clone();
  std::vector<at::Tensor> inputs{x, torch::Tensor(y.clone())};
  const void* const memory = inputs[1].data_ptr();
  const auto over = call.run(std::move(inputs), {});
  EXPECT_EQ(over[0].data_ptr(), memory);
  EXPECT_TRUE(testing::same_tensor(over[0], Product::expected(x, y), testing::kClose));
  const auto apart = call.run({x, y}, {});
  EXPECT_NE(apart[0].data_ptr(), y.data_ptr());
  EXPECT_TRUE(at::equal(y, kept));
}

TEST(FusedCall, IsRunByTheInterpreterWithoutAKernel) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 4}));
  const Value a = builder.node("aten.mm", {builder.node("aten.sin", {x}), x});
  const auto body = std::make_shared<const Graph>(builder.finish({a}));
  std::string lines;
  set_log_sink([&](std::string_view line) { lines += line; });
  set_log("kernels");
  const FusedCall call(body), again(body);
  set_log("");
  set_log_sink({});
  testing::expect_contains(lines, "[diptych kernels] the interpreter runs graph of 2 nodes: no common iteration space");
  EXPECT_EQ(lines.find("interpreter runs"), lines.rfind("interpreter runs"));
  EXPECT_EQ(code_of(body)->code, nullptr);
  EXPECT_TRUE(testing::same_tensors(call.run({builder.example(x)}, {}), {builder.example(a)}));
  EXPECT_TRUE(testing::same_tensors(again.run({builder.example(x)}, {}), {builder.example(a)}));
}

TEST(FusedCall, RecordsGradientsWhereTheyAreAskedFor) {
  const Product product;
  const FusedCall call(product.body);
  const auto x = torch::ones({4, 6}).requires_grad_(), y = torch::full({4, 6}, 2.0);
  call.run({x, y}, {.differentiable = true})[0].sum().backward();
  EXPECT_TRUE(testing::same_tensor(x.grad(), 2 * x.detach().cos(), testing::kClose));
}

TEST(FusedCall, IsCalledByManyThreads) {
  const Product product;
  const FusedCall call(product.body);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 100; ++k) {
        const auto x = torch::full({4, 6}, 0.1 * k), y = torch::full({4, 6}, 0.5);
        right += at::allclose(call.run({x, y}, {})[0], Product::expected(x, y)) ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 400);
}

TEST(KernelCheck, FindsTheFirstThatDiffers) {
  const Product product;
  const std::vector<at::Tensor> inputs{torch::ones({4, 6}), torch::ones({4, 6})};
  const auto expected = Product::expected(inputs[0], inputs[1]);
  auto wrong = expected.clone();
  check_kernel(*product.body, inputs, {wrong + 1e-7}, {expected});
  wrong[2][3] = 7;
  expect_error<InternalError>([&] { check_kernel(*product.body, inputs, {wrong}, {expected}); },
                              "computed 7 at [2,3] of output 0");
  wrong = expected.clone();
  wrong[0][1] = std::numeric_limits<float>::quiet_NaN();
  expect_error<InternalError>([&] { check_kernel(*product.body, inputs, {wrong}, {expected}); },
                              "at [0,1] of output 0");
  check_kernel(*product.body, inputs, {wrong}, {wrong});
  set_checks_kernels(true);
  EXPECT_NO_THROW(FusedCall(product.body).run(std::vector(inputs), {}));
  set_checks_kernels(false);
}

TEST(OverwritableInputs, AreReadWhereTheyAreWritten) {
  const auto inputs_of = [](const std::string& body) {
    return overwritable_inputs(
        parse_kernel("kernel k(d0=4, d1=8) {\n  x0 : f32\n  x1 : f32\n  y0 : f32\n" + body + "}\n"));
  };
  using Inputs = std::vector<std::vector<int32_t>>;
  const std::string loads = "  %0 : f32 = load x0[8*d0 + d1]\n  %1 : f32 = load x1[4*d1 + d0]\n";
  EXPECT_EQ(inputs_of(loads + "  %2 : f32 = add %0, %1\n  store y0[8*d0 + d1] = %2\n"), Inputs{{0}});
  EXPECT_EQ(inputs_of(loads + "  %2 : f32 = add %0, %1\n  store y0[d0 + 4*d1] = %2\n"), Inputs{{1}});
  EXPECT_EQ(inputs_of(loads + "  %2 : f32 = load x0[8*d0]\n  %3 : f32 = add %0, %2\n  store y0[8*d0 + d1] = %3\n"),
            Inputs{{}});
  EXPECT_EQ(
      inputs_of(loads + "  %2 : f32 = reduce sum %0 over d1\n  %3 : f32 = sub %0, %2\n  store y0[8*d0 + d1] = %3\n"),
      Inputs{{}});
}

// A sum over all rows ends once they are done; one within a row may read it before its elements are written.
TEST(OverwritableInputs, AreThoseOfKernelsThatSumRowsOnce) {
  const auto inputs_of = [](const std::string& sum) {
    return overwritable_inputs(
        parse_kernel("kernel k(d0=4096, d1=64) {\n  x0 : f32\n  x1 : f32\n  y0 : f32\n  y1 : f32\n"
                     "  %0 : f32 = load x0[64*d0 + d1]\n  %1 : f32 = load x1[64*d0 + d1]\n  %2 : f32 = mul %0, %1\n" +
                     sum + "  store y0[64*d0 + d1] = %2\n}\n"));
  };
  using Inputs = std::vector<std::vector<int32_t>>;
  const std::string sum = "  %3 : f32 = reduce sum %2 over d0\n";
  EXPECT_EQ(inputs_of(sum + "  store y1[d1] = %3\n"), (Inputs{{0, 1}, {}}));
  EXPECT_EQ(inputs_of(sum + "  %4 : f32 = exp %3\n  store y1[d1] = %4\n"), (Inputs{{0, 1}, {}}));
  EXPECT_EQ(inputs_of(sum + "  %4 : f32 = load x1[d1]\n  %5 : f32 = add %3, %4\n  store y1[d1] = %5\n"),
            (Inputs{{}, {}}));
  EXPECT_EQ(inputs_of("  %3 : f32 = reduce sum %2 over d1\n  store y1[d0] = %3\n"), (Inputs{{}, {}}));
}

// Code that picks an element of a row reads it by itself, though the text has a sum over the row.
TEST(OverwritableInputs, AreNoneOfWhichAnElementIsPicked) {
  const auto inputs = overwritable_inputs(parse_kernel(R"(kernel k(d0=2, d1=3, d2=8) {
    x0 : f32
    x1 : i64
    y0 : f32
    y1 : f32
    %0 : f32 = load x0[24*d0 + 8*d1 + d2]
    %1 : f32 = exp %0
    %2 : i64 = load x1[8*d0 + d2]
    %3 : i64 = index d1
    %4 : b8 = eq %3, %2
    %5 : f32 = constant 0
    %6 : f32 = select %4, %0, %5
    %7 : f32 = reduce sum %6 over d1
    %8 : f32 = sub %1, %7
    store y0[24*d0 + 8*d1 + d2] = %1
    store y1[24*d0 + 8*d1 + d2] = %8
  })"));
  EXPECT_EQ(inputs, (std::vector<std::vector<int32_t>>{{}, {}}));
}

}  // namespace
}  // namespace diptych
