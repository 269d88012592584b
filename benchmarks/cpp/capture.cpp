// Times how capture grows with the model: the joint graph of GPTs of 3 to 24 layers. The time per node should not rise.
#include <benchmark/benchmark.h>

#include "flat_model.h"

namespace diptych::bench {
namespace {

void report_nodes(benchmark::State& state, size_t nodes) {
  state.SetComplexityN(static_cast<int64_t>(nodes));
  state.counters["nodes"] = static_cast<double>(nodes);
  state.counters["time_per_node"] = benchmark::Counter(
      static_cast<double>(nodes), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

GptShape gpt_of_layers(int64_t layers) {
  GptShape shape = kGpt;
  shape.layers = layers;
  return shape;
}

void joint_of_gpt(benchmark::State& state) {
  const FlatModel model(gpt(gpt_of_layers(state.range(0)), Fill::kUntouched));
  size_t nodes = 0;
  for (auto _ : state) nodes = joint_of(model).graph.nodes().size();
  report_nodes(state, nodes);
}
BENCHMARK(joint_of_gpt)->RangeMultiplier(2)->Range(3, 24)->Unit(benchmark::kMillisecond)->Complexity(benchmark::oN);

/// Times partitioning alone, on a joint graph made before the clock starts.
void partition_of_gpt(benchmark::State& state, Partitioner (*partitioner)()) {
  const FlatModel model(gpt(gpt_of_layers(state.range(0)), Fill::kUntouched));
  const Joint joint = joint_of(model);
  for (auto _ : state) benchmark::DoNotOptimize(split_joint(joint, partitioner()));
  report_nodes(state, joint.graph.nodes().size());
}
BENCHMARK_CAPTURE(partition_of_gpt, default, default_partition)
    ->RangeMultiplier(2)
    ->Range(3, 24)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();
BENCHMARK_CAPTURE(partition_of_gpt, min_cut, min_cut)
    ->RangeMultiplier(2)
    ->Range(3, 24)
    ->Unit(benchmark::kMillisecond)
    ->Complexity();

}  // namespace
}  // namespace diptych::bench
