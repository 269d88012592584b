// Times what a call of a compiled function costs before anything runs: the guards' check and the cache hit, by number
// of inputs.
#include <benchmark/benchmark.h>

#include "diptych/compile/arguments.h"
#include "models.h"

namespace diptych::bench {

using namespace detail;
namespace {

Tensors inputs_of(int64_t count) {
  Tensors inputs;
  for (int64_t i = 0; i < count; ++i) inputs.push_back(at::zeros({2, 3}).set_requires_grad(true));
  return inputs;
}

FlatResult sum_of_first(const Tensors& inputs) { return {{inputs[0].sum()}, {"out"}}; }

/// Puts one capture for each element of `captures` into the cache; the guards of the last one are tried first.
void fill(Cache& cache, const std::vector<Tensors>& captures) {
  for (const Tensors& inputs : captures) {
    const Flattened flat = detail::flatten_arguments({}, inputs);
    Cache::Tensors tensors;
    detail::match_arguments(flat.spec, tensors, inputs);
    const auto captured =
        std::make_shared<CapturedFunction>(sum_of_first, flat.tensors, flat.spec.tensor_paths(), AotOptions{});
    cache.insert(std::make_shared<Cache::Entry>(flat.spec, GlobalState::current(), Cache::guards_of(*captured, tensors),
                                                std::make_shared<CompiledFunction>(captured)));
  }
}

bool hits(Cache& cache, const Tensors& inputs) {
  Cache::Tensors tensors;
  return cache.find([&](const Cache::Entry& entry,
                        Cache::Tensors& out) { return detail::match_arguments(entry.spec, out, inputs); },
                    tensors) != nullptr;
}

void check_hits(benchmark::State& state, Cache& cache, const Tensors& inputs) {
  if (!hits(cache, inputs)) {
    state.SkipWithError("the guards refused the inputs that they were made for");
    return;
  }
  for (auto _ : state) benchmark::DoNotOptimize(hits(cache, inputs));
  state.SetComplexityN(static_cast<int64_t>(inputs.size()));
}

void guard_check_and_hit(benchmark::State& state) {
  const Tensors inputs = inputs_of(state.range(0));
  Cache cache("bench", 64);
  fill(cache, {inputs});
  check_hits(state, cache, inputs);
}
BENCHMARK(guard_check_and_hit)->RangeMultiplier(10)->Range(1, 1000)->Complexity(benchmark::oN);

/// Passes the same tensor in every slot, so that each pair of inputs shares its storage.
void guard_check_of_shared_inputs(benchmark::State& state) {
  const Tensors inputs(static_cast<size_t>(state.range(0)), at::zeros({2, 3}));
  Cache cache("bench", 64);
  fill(cache, {inputs});
  check_hits(state, cache, inputs);
}
BENCHMARK(guard_check_of_shared_inputs)->RangeMultiplier(10)->Range(1, 1000);

/// Passes ten inputs; before the capture that fits, there are as many captures of other shapes as the argument says.
void hit_behind_misses(benchmark::State& state) {
  const Tensors inputs = inputs_of(10);
  std::vector<Tensors> captures{inputs};
  for (int64_t i = 0; i < state.range(0); ++i) captures.push_back(Tensors(10, at::zeros({4, i + 2})));
  Cache cache("bench", 64);
  fill(cache, captures);
  check_hits(state, cache, inputs);
}
BENCHMARK(hit_behind_misses)->Arg(1)->Arg(7)->Arg(63);

}  // namespace
}  // namespace diptych::bench
