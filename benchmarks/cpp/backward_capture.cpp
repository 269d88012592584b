// Captured backwards: how long a backward run takes beside the engine's, and a first capture. With so many small nodes,
// the time of a run is nearly all lookup on one side and the engine on the other.
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/nn.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>

#include "diptych/backward/backward_cache.h"
#include "diptych/backward/engine_gate.h"
#include "diptych/backward/step.h"
#include "diptych/compile/aot.h"
#include "models.h"

namespace diptych::bench {
namespace {

at::Tensor chain(const at::Tensor& x, int64_t nodes) {
  at::Tensor y = x;
  for (int64_t i = 0; i < nodes; ++i) y = i % 2 == 0 ? y.tanh() : y * 1.5;
  return y.sum();
}

/// Times backwards of fresh graphs, without the forward.
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

double lookup_seconds = 0;
int lookup_misses = 0;

/// Replaces what capture installs, and stops where the graph would run.
torch::autograd::variable_list look_up(const c10::intrusive_ptr<torch::autograd::Node>& root,
                                       const torch::autograd::GraphTask& task, bool /*accumulates*/,
                                       const torch::autograd::edge_list& /*outputs*/) {
  detail::leave_entry();
  const auto begin = std::chrono::steady_clock::now();
  const auto calls = detail::calls_in_order(root, task);
  detail::RunContents contents(calls, task.captured_vars_.size(), /*records_gradients=*/false, /*surroundings=*/"",
                               detail::run_backend(detail::kInterpreter));
  const auto found = detail::BackwardCache::instance().find(calls, contents);
  lookup_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (found.miss) ++lookup_misses;
  return torch::autograd::variable_list(task.captured_vars_.size());
}

/// Times what a hit costs before its graph runs: the order of the nodes, their key, and the search for it.
void lookup_of_small_nodes(benchmark::State& state) {
  const at::Tensor x = at::randn({4}).set_requires_grad(true);
  backward_capture::reset();
  lookup_misses = 0;
  torch::autograd::Engine::set_compiled_autograd(look_up);
  const auto pass = [&] {
    torch::autograd::grad({chain(x, state.range(0))}, {x}, {}, {}, false, /*allow_unused=*/true);
  };
  pass();  // this run is captured
  for (auto _ : state) {
    pass();
    state.SetIterationTime(lookup_seconds);
  }
  torch::autograd::Engine::set_compiled_autograd(nullptr);
  state.counters["time_per_node"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  if (lookup_misses != 1) state.SkipWithError("not one capture");
}
BENCHMARK(lookup_of_small_nodes)->RangeMultiplier(10)->Range(10, 10000)->UseManualTime();

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

/// Times a backward whose graph is traced and made ready to run. Sizes are small, so that this dominates.
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

/// A model in training: forward, backward, clipping and AdamW.
class Training {
 public:
  explicit Training(bool captured)
      : model_(gpt(small_gpt(), Fill::kValues)), optimizer_(model_.params, torch::optim::AdamWOptions(1e-4)) {
    if (!captured) return;
    forward_.emplace([loss = model_.loss](const Tensors& params, const Tensors& buffers, const Tensors& data) {
      return loss(params, buffers, data)[0];
    });
    step_.emplace(optimizer_, StepOptions{.max_gradient_norm = 1.0});
  }

  /// Returns the loss before the step.
  double step() {
    if (step_) {
      const at::Tensor loss = (*forward_)(model_.params, model_.buffers, model_.data);
      (*step_)(loss);
      return loss.item<double>();
    }
    const at::Tensor loss = model_.loss(model_.params, model_.buffers, model_.data)[0];
    optimizer_.zero_grad();
    torch::autograd::backward({loss}, {});
    torch::nn::utils::clip_grad_norm_(model_.params, 1.0);
    optimizer_.step();
    return loss.item<double>();
  }

 private:
  using Loss = std::function<at::Tensor(const Tensors&, const Tensors&, const Tensors&)>;
  Model model_;
  torch::optim::AdamW optimizer_;
  std::optional<Aot<Loss>> forward_;
  std::optional<TrainingStep> step_;
};

double quantile(std::vector<double> values, double fraction) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(fraction * static_cast<double>(values.size() - 1))];
}

/// Times steps of both sides in turns, so that other load on the machine affects both. step(): the loss before it. The
/// time is that of the captured step; the counters hold the medians of both in ms, and of the ratio captured / eager of
/// neighbouring steps with its 10th and 90th percentile.
template <class Eager, class Captured>
void time_in_turns(benchmark::State& state, Eager& eager, Captured& captured) {
  const auto time = [](auto& training, double& loss) {
    const auto begin = std::chrono::steady_clock::now();
    loss = training.step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double expected = 0, got = 0;
  time(eager, expected);
  time(captured, got);
  std::vector<double> eager_times, captured_times, ratios;
  for (auto _ : state) {
    eager_times.push_back(time(eager, expected));
    captured_times.push_back(time(captured, got));
    ratios.push_back(captured_times.back() / eager_times.back());
    state.SetIterationTime(captured_times.back());
  }
  if (!(std::abs(got - expected) <= 1e-3 * std::abs(expected))) {
    state.SkipWithError("captured steps do not train as eager ones");
  }
  state.counters["eager_ms"] = 1e3 * quantile(eager_times, 0.5);
  state.counters["captured_ms"] = 1e3 * quantile(captured_times, 0.5);
  state.counters["ratio"] = quantile(ratios, 0.5);
  state.counters["ratio_p10"] = quantile(ratios, 0.1);
  state.counters["ratio_p90"] = quantile(ratios, 0.9);
}

void step_of_gpt(benchmark::State& state) {
  at::manual_seed(0);
  Training eager(false);
  at::manual_seed(0);
  Training captured(true);
  time_in_turns(state, eager, captured);
}
BENCHMARK(step_of_gpt)->Unit(benchmark::kMillisecond)->UseManualTime();

/// AdamW of the parameters of a GPT of 6 blocks, 10.8 million numbers, and little else: the loss is a
/// weighted sum of them. Eager's update is LibTorch's fused one; the first step, which captures, is before the clock.
class Update {
 public:
  explicit Update(bool captured)
      : parameters_(gpt(kGpt, Fill::kValues).params), optimizer_(parameters_, torch::optim::AdamWOptions(1e-3)) {
    if (captured) step_.emplace(optimizer_);
    for (const at::Tensor& parameter : parameters_) {
      weights_.push_back(at::randn_like(parameter));
      means_.push_back(at::zeros_like(parameter));
      squares_.push_back(at::zeros_like(parameter));
      counts_.push_back(at::zeros({}));
    }
  }

  double step() {
    at::Tensor loss = at::zeros({});
    for (size_t i = 0; i < parameters_.size(); ++i) loss = loss + (parameters_[i] * weights_[i]).sum();
    if (step_) {
      (*step_)(loss);
      return loss.item<double>();
    }
    optimizer_.zero_grad();
    torch::autograd::backward({loss}, {});
    const at::NoGradGuard no_grad;
    Tensors gradients;
    for (const at::Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    for (const at::Tensor& count : counts_) count.add_(1);
    at::_fused_adamw_(parameters_, gradients, means_, squares_, {}, counts_, /*lr=*/1e-3, /*beta1=*/0.9,
                      /*beta2=*/0.999,
                      /*weight_decay=*/1e-2, /*eps=*/1e-8, /*amsgrad=*/false, /*maximize=*/false);
    return loss.item<double>();
  }

 private:
  Tensors parameters_, weights_, means_, squares_, counts_;
  torch::optim::AdamW optimizer_;
  std::optional<TrainingStep> step_;
};

void update_of_adamw(benchmark::State& state) {
  at::manual_seed(0);
  Update eager(false);
  at::manual_seed(0);
  Update captured(true);
  time_in_turns(state, eager, captured);
}
BENCHMARK(update_of_adamw)->Unit(benchmark::kMillisecond)->UseManualTime();

}  // namespace
}  // namespace diptych::bench
