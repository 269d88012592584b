// Programs that gather by tensors of indices as native kernels, beside eager: results, gradients and errors.
#include <torch/nn/functional.h>

#include "backends/native/native_case.h"
#include "diptych/base/switches.h"
#include "diptych/native/call/fused_call.h"
#include "diptych/native/native_backend.h"
#include "interpreter/graph_builder.h"
#include "testing/eager_check.h"

namespace diptych {

using namespace detail;
namespace {

namespace F = torch::nn::functional;
using testing::CheckOptions;
using testing::expect_as_eager;
using testing::leaves_of;
using testing::natively;
using testing::Tensors;

// Some indices below `end`, the same at each call.
at::Tensor indices(at::IntArrayRef sizes, int64_t end) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return torch::arange(count).mul(7).add(3).remainder(end).reshape(sizes);
}

TEST(NativeGather, RunsLossesOfClasses) {
  for (const int64_t ignored : {-100, 3}) {
    for (const bool is_weighted : {false, true}) {
      expect_as_eager(
          leaves_of({{24, 10}, {10}}),
          [=](const Tensors& t) -> Tensors {
            auto options = F::CrossEntropyFuncOptions().ignore_index(ignored);
            if (is_weighted) options.weight(t[1].detach().abs());
            const auto target = indices({24}, 10);
            return {F::cross_entropy(t[0] * t[1], target, options),
                    F::cross_entropy(t[0], target, options.reduction(torch::kSum)),
                    F::cross_entropy(t[0], target, options.reduction(torch::kNone))};
          },
          natively());
    }
  }
}

TEST(NativeGather, RunsLossesOfManyRows) {
  CheckOptions options = natively();
  for (const auto& partition : {default_partition(), min_cut()}) {
    options.aot.partition = partition;
    expect_as_eager(
        leaves_of({{300, 24}, {500, 24}}),
        [](const Tensors& t) -> Tensors { return {F::cross_entropy(F::linear(t[0], t[1]), indices({300}, 500))}; },
        options);
  }
}

TEST(NativeGather, ALossOfClassesIsOneKernelThatStoresNumbers) {
  test::GraphBuilder builder;
  const Value x = builder.input(torch::randn({64, 30})), target = builder.input(indices({64}, 30));
  const Value logs = builder.node("aten._log_softmax", {x, c10::IValue(1), c10::IValue(false)});
  const Value loss =
      builder.node("aten.nll_loss_forward", {logs, target, c10::IValue(), c10::IValue(1), c10::IValue(-100)});
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(builder.finish({loss})));
  const Graph& fused = fused_graph(*executable);
  ASSERT_EQ(fused.nodes().size(), 1U) << fused.code();
  for (const Value output : fused.nodes()[0].outputs) EXPECT_EQ(fused.meta(output).numel(), 1);
  const auto kernels = native_kernels(*executable);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].problem(), "");
  EXPECT_TRUE(testing::same_tensors(executable->run({builder.example(x), builder.example(target)}),
                                    {builder.example(loss)}, testing::within(1e-5)));
}

TEST(NativeGather, RunsGathersWithWhatIsAround) {
  expect_as_eager(
      leaves_of({{12, 16}, {5, 16}, {3, 4, 16}}),
      [](const Tensors& t) -> Tensors {
        const auto tokens = indices({3, 5}, 12);
        const auto x = torch::tanh(F::embedding(tokens, t[0]) + t[1]);
        const auto normal = F::layer_norm(F::embedding(tokens, t[0]) + t[1], F::LayerNormFuncOptions({16}));
        const auto selected = t[2].index_select(1, indices({6}, 4)).sin() * 2;
        const auto indexed = t[2].index({torch::indexing::Slice(), indices({2, 3}, 4) - 4}).exp() + 1;
        const auto gathered = t[2].gather(2, indices({3, 4, 2}, 16)).cos() * t[2].gather(0, indices({3, 4, 2}, 3));
        return {x, normal, selected, indexed, gathered, t[2].tanh().gather(2, indices({3, 4, 1}, 16))};
      },
      natively());
}

TEST(NativeGather, RunsSumsAtIndicesWithWhatIsAround) {
  expect_as_eager(
      leaves_of({{12, 16}, {30, 16}, {3, 4, 16}}),
      [](const Tensors& t) -> Tensors {
        const auto tokens = indices({30}, 12);
        const auto added = (t[0] * 2).index_add(0, tokens, t[1].exp(), 0.5);
        const auto scattered = t[0].tanh().scatter_add(0, tokens.unsqueeze(1).expand({30, 16}), t[1] * t[1]);
        const c10::List<std::optional<at::Tensor>> second({std::nullopt, indices({5}, 4) - 4});
        const auto slices = t[1].slice(0, 0, 15).reshape({3, 5, 16}) * 3;
        const auto put = at::index_put(t[2].sin(), second, slices, /*accumulate=*/true);
        const auto tied = F::linear(F::embedding(tokens, t[0]) + t[1], t[0]);
        return {
            added, scattered, put, tied, t[0].index_select(0, tokens).sin(), t[2].index({tokens.remainder(3)}).cos()};
      },
      natively());
}

TEST(NativeGather, ASumAtIndicesAndWhatItIsAddedToAreOneKernel) {
  test::GraphBuilder builder;
  const Value gradient = builder.input(torch::randn({40, 24})), tokens = builder.input(indices({40}, 500));
  const Value other = builder.input(torch::randn({500, 24}));
  const Value added = builder.node("aten.sin", {gradient});
  const Value sums = builder.node("aten.embedding_dense_backward",
                                  {added, tokens, c10::IValue(500), c10::IValue(-1), c10::IValue(false)});
  const Value all = builder.node("aten.add.Tensor", {sums, other});
  const NativeBackend backend;
  const auto executable = backend.compile(backend.prepare(builder.finish({all})));
  const auto kernels = native_kernels(*executable);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].problem(), "");
  EXPECT_EQ(kernels[0].work().bytes_written, 500 * 24 * 4);
  EXPECT_EQ(kernels[0].work().flops, 2 * 40 * 24);
  EXPECT_NE(kernels[0].assembly(), "");
  EXPECT_TRUE(testing::same_tensors(
      executable->run({builder.example(gradient), builder.example(tokens), builder.example(other)}),
      {builder.example(all)}, testing::within(1e-5)));
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

TEST(NativeGather, RaisesEagersErrorsAndGoesOn) {
  using Call = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;
  const std::vector<std::pair<const char*, Call>> calls = {
      {"embedding", [](const auto& x, const auto& i) { return F::embedding(i, x.tanh() * 1.5).exp() + 1; }},
      {"index_select", [](const auto& x, const auto& i) { return x.index_select(0, i).exp() + 1; }},
      {"index", [](const auto& x, const auto& i) { return x.index({i}).exp() + 1; }},
      {"gather", [](const auto& x, const auto& i) { return x.gather(1, i.unsqueeze(1)).exp() + 1; }},
      {"picked", [](const auto& x, const auto& i) { return x.log_softmax(1).gather(1, i.unsqueeze(1)).sum(); }},
      {"cross_entropy", [](const auto& x, const auto& i) { return F::cross_entropy(x.tanh() * 2, i); }},
      {"index_add", [](const auto& x, const auto& i) { return (x * 2).index_add(0, i, x.exp()); }},
      {"index_put", [](const auto& x, const auto& i) { return (x * 2).index_put({i}, x.exp(), true); }},
  };
  const auto x = torch::randn({9, 9}), good = indices({9}, 9);
  for (const auto& [name, call] : calls) {
    SCOPED_TRACE(name);
    const AotOptions options{.backend = "native"};
    const auto f = aot_function(call, options);
    for (const int64_t index : {0, 9, -1, 1 << 30, -10, 8}) {
      const auto tried = good.clone();
      tried[4] = index;
      at::Tensor expected, got;
      const std::string error = error_of([&] { expected = call(x, tried); });
      const std::string ours = error_of([&] { got = f(x, tried); });
      EXPECT_EQ(ours.empty(), error.empty()) << ours << "\n" << error;
      // The loss is decomposed, and its gather has words of its own.
      const bool has_own_words = name == std::string_view("cross_entropy");
      if (!error.empty()) testing::expect_contains(ours, has_own_words ? "is out of bounds" : first_line(error));
      EXPECT_TRUE(testing::same_tensor(got, expected, testing::within(1e-5)));
      EXPECT_TRUE(testing::same_tensor(f(x, good), call(x, good), testing::within(1e-5)));
    }
  }
}

TEST(FusedCall, KeepsInputsForACheckThatFails) {
  test::GraphBuilder builder;
  const Value x = builder.input(torch::randn({5})), i = builder.input(torch::arange(5)),
              y = builder.input(torch::randn({5}));
  const Value picked = builder.node("aten.gather", {x, c10::IValue(0), i, c10::IValue(false)});
  const Value sum = builder.node("aten.mul.Tensor", {picked, y});
  const FusedCall call(std::make_shared<const Graph>(builder.finish({sum})));
  const auto table = torch::randn({5}), scale = torch::randn({5}), good = torch::arange(5), wrong = good + 1;
  for (const bool checks : {false, true}) {
    set_checks_kernels(checks);
    EXPECT_NE(error_of([&] { call.run({table, wrong, scale}, {}); }), "");
    EXPECT_TRUE(testing::same_tensor(call.run({table, good, scale}, {})[0], table * scale, testing::kClose));
  }
  set_checks_kernels(false);
}

}  // namespace
}  // namespace diptych
