// Times a call when there is next to nothing to compute: a compiled function beside eager.
#include <benchmark/benchmark.h>

#include "checks.h"
#include "diptych/diptych.h"

namespace diptych::bench {
namespace {

template <class F>
void forward(benchmark::State& state, const F& function) {
  check_two_elements(function);
  const auto inputs = two_element_inputs();
  for (auto _ : state) benchmark::DoNotOptimize(function(inputs[0], inputs[1]));
}

template <class F>
void forward_backward(benchmark::State& state, const F& function) {
  check_two_elements(function);
  const auto inputs = two_element_inputs();
  for (auto _ : state) {
    benchmark::DoNotOptimize(torch::autograd::grad({function(inputs[0], inputs[1])}, {inputs[0], inputs[1]}));
  }
}

template <class F>
void without_grad(benchmark::State& state, const F& function) {
  const at::NoGradGuard no_grad;
  forward(state, function);
}

/// A function of its own for each benchmark, so that each finds its capture first.
auto compiled() { return aot_function(two_elements, {.name = "two_elements"}); }

void eager_forward(benchmark::State& state) { forward(state, two_elements); }
void diptych_forward(benchmark::State& state) { forward(state, compiled()); }
void eager_forward_backward(benchmark::State& state) { forward_backward(state, two_elements); }
void diptych_forward_backward(benchmark::State& state) { forward_backward(state, compiled()); }
void eager_without_grad(benchmark::State& state) { without_grad(state, two_elements); }
void diptych_without_grad(benchmark::State& state) { without_grad(state, compiled()); }
BENCHMARK(eager_forward);
BENCHMARK(diptych_forward);
BENCHMARK(eager_forward_backward);
BENCHMARK(diptych_forward_backward);
BENCHMARK(eager_without_grad);
BENCHMARK(diptych_without_grad);

}  // namespace
}  // namespace diptych::bench
