// Captured backwards: how long a pass takes beside the engine's, and a first capture. The time of a pass with so many
// small nodes is nearly all lookup on one side and the engine on the other.
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <stdexcept>

#include "diptych/compile/backward_capture.h"
#include "models.h"

namespace diptych::bench {
namespace {

at::Tensor chain(const at::Tensor& x, int64_t nodes) {
  at::Tensor y = x;
  for (int64_t i = 0; i < nodes; ++i) y = i % 2 == 0 ? y.tanh() : y * 1.5;
  return y.sum();
}

/// Backwards of fresh graphs; the forward is not timed.
template <class Forward>
void time_backwards(benchmark::State& state, const Tensors& inputs, bool captured, const Forward& forward) {
  std::optional<BackwardCapture> capture;
  if (captured) capture.emplace();
  for (auto _ : state) {
    state.PauseTiming();
    for (const at::Tensor& input : inputs) input.mutable_grad().reset();
    const at::Tensor loss = forward();
    state.ResumeTiming();
    torch::autograd::backward({loss}, {});
  }
}

template <class Forward>
void check(const Tensors& inputs, const Forward& forward) {
  const auto gradients = [&] {
    std::vector<at::Tensor> found;
    for (const at::Tensor& input : inputs) input.mutable_grad().reset();
    torch::autograd::backward({forward()}, {});
    for (const at::Tensor& input : inputs) found.push_back(input.grad().clone());
    return found;
  };
  const auto expected = gradients();
  const BackwardCapture capture;
  const auto got = gradients();
  for (size_t i = 0; i < got.size(); ++i) {
    if (!at::allclose(got[i], expected[i])) throw std::runtime_error("a captured backward is not what eager gives");
  }
}

void pass_of_small_nodes(benchmark::State& state, bool captured) {
  const at::Tensor x = at::ones({2}).requires_grad_();
  const auto forward = [&] { return chain(x, state.range(0)); };
  check({x}, forward);
  time_backwards(state, {x}, captured, forward);
  state.counters["time_per_node"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK_CAPTURE(pass_of_small_nodes, eager, false)->RangeMultiplier(10)->Range(10, 10000);
BENCHMARK_CAPTURE(pass_of_small_nodes, captured, true)->RangeMultiplier(10)->Range(10, 10000);

GptShape small_gpt() {
  GptShape shape = kGpt;
  shape.layers = 3;
  shape.batch = 2;
  return shape;
}

void pass_of_gpt(benchmark::State& state, bool captured) {
  const Model model = gpt(small_gpt(), Fill::kValues);
  const auto forward = [&] { return model.loss(model.params, model.buffers, model.data)[0]; };
  check(model.params, forward);
  time_backwards(state, model.params, captured, forward);
}
BENCHMARK_CAPTURE(pass_of_gpt, eager, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(pass_of_gpt, captured, true)->Unit(benchmark::kMillisecond);

/// One more backward than a hit: its graph is traced and made ready to run. Small sizes, so that this is what is seen.
void first_pass_of_gpt(benchmark::State& state) {
  GptShape shape = kGpt;
  shape.width = 24;
  shape.batch = 1;
  const Model model = gpt(shape, Fill::kValues);
  const BackwardCapture capture;
  for (auto _ : state) {
    state.PauseTiming();
    backward_capture::reset();
    const at::Tensor loss = model.loss(model.params, model.buffers, model.data)[0];
    state.ResumeTiming();
    torch::autograd::backward({loss}, {});
  }
  if (backward_capture::statistics().captures != 1) state.SkipWithError("not captured");
}
BENCHMARK(first_pass_of_gpt)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace diptych::bench
