// What the interpreter costs per node: the same small operators called directly (below autograd, as compiled code
// would), by a Program with and without buffer reuse, boxed through the dispatcher, and in eager with autograd on.
#include <benchmark/benchmark.h>
#include <torch/types.h>

#include "checks.h"
#include "diptych/interpreter/program.h"

namespace {

using namespace diptych;  // NOLINT(google-build-using-namespace): a benchmark file

Value add_node(Graph& graph, const char* name, std::initializer_list<Operand> operands, const TensorMeta& meta) {
  Node node{Op::find(name), operands, {}, {}, {}, {}, true};
  const auto index = graph.add_node(std::move(node), {meta});
  return graph.nodes()[index].outputs[0];
}

void finish(Graph& graph, Value output) { graph.set_outputs({output}, {{SlotKind::kOutput, "y"}}); }

// tanh(x * w + b) * 2 - x: five pointwise operators.
Graph five_operators(const at::Tensor& example) {
  Graph graph("five");
  const auto meta = TensorMeta::of(example);
  const Value x = graph.add_input(meta, {SlotKind::kArgument, "x"});
  const Value w = graph.add_input(meta, {SlotKind::kArgument, "w"});
  const Value b = graph.add_input(meta, {SlotKind::kArgument, "b"});
  const Value product = add_node(graph, "aten.mul.Tensor", {x, w}, meta);
  const Value sum = add_node(graph, "aten.add.Tensor", {product, b, c10::IValue(1)}, meta);
  const Value squashed = add_node(graph, "aten.tanh", {sum}, meta);
  const Value doubled = add_node(graph, "aten.mul.Tensor", {squashed, WrappedNumber{at::Scalar(2.0)}}, meta);
  finish(graph, add_node(graph, "aten.sub.Tensor", {doubled, x, c10::IValue(1)}, meta));
  return graph;
}

at::Tensor five_direct(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  return at::sub(at::mul(at::tanh(at::add(at::mul(x, w), b)), 2.0), x);
}

// `length` sines, one after the other.
Graph chain(const char* op, int64_t length, const at::Tensor& example) {
  Graph graph("chain");
  const auto meta = TensorMeta::of(example);
  Value value = graph.add_input(meta, {SlotKind::kArgument, "x"});
  for (int64_t i = 0; i < length; ++i) value = add_node(graph, op, {value}, meta);
  finish(graph, value);
  return graph;
}

void FiveOperatorsEagerWithAutograd(benchmark::State& state) {
  const auto x = torch::randn({2}), w = torch::randn({2}).requires_grad_(), b = torch::randn({2}).requires_grad_();
  for (auto _ : state) benchmark::DoNotOptimize(five_direct(x, w, b));
}
void FiveOperatorsEagerNoGrad(benchmark::State& state) {
  const torch::NoGradGuard no_grad;
  const auto x = torch::randn({2}), w = torch::randn({2}), b = torch::randn({2});
  for (auto _ : state) benchmark::DoNotOptimize(five_direct(x, w, b));
}
void FiveOperatorsDirectBelowAutograd(benchmark::State& state) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto x = torch::randn({2}), w = torch::randn({2}), b = torch::randn({2});
  for (auto _ : state) benchmark::DoNotOptimize(five_direct(x, w, b));
}
void FiveOperatorsProgram(benchmark::State& state) {
  const auto x = torch::randn({2}), w = torch::randn({2}), b = torch::randn({2});
  const Program program(five_operators(x), {.reuse_buffers = state.range(0) != 0});
  bench::expect_close("the program", program.run({x, w, b}), {five_direct(x, w, b)});
  for (auto _ : state) benchmark::DoNotOptimize(program.run({x, w, b}));
}

template <class Function>
void run_chain(benchmark::State& state, Function&& step) {
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto x = torch::randn({2, 2});
  for (auto _ : state) {
    auto value = x;
    for (int64_t i = 0; i < state.range(0); ++i) value = step(value);
    benchmark::DoNotOptimize(value);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
template <class Function>
void run_chain_program(benchmark::State& state, const char* op, bool reuse, Function&& step) {
  const auto x = torch::randn({2, 2});
  const Program program(chain(op, state.range(0), x), {.reuse_buffers = reuse});
  auto value = x;
  for (int64_t i = 0; i < state.range(0); ++i) value = step(value);
  bench::expect_close("the program", program.run({x}), {value});
  for (auto _ : state) benchmark::DoNotOptimize(program.run({x}));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
at::Tensor tanh_of(const at::Tensor& x) { return at::tanh(x); }
at::Tensor alias_of(const at::Tensor& x) { return at::alias(x); }
void ChainTanhDirect(benchmark::State& state) { run_chain(state, tanh_of); }
void ChainTanhBoxed(benchmark::State& state) {
  const auto op = Op::find("aten.tanh").handle();
  torch::jit::Stack stack;
  run_chain(state, [&](const at::Tensor& x) {
    stack.clear();
    stack.emplace_back(x);
    op.callBoxed(&stack);
    return std::move(stack.back()).toTensor();
  });
}
void ChainTanhProgram(benchmark::State& state) { run_chain_program(state, "aten.tanh", /*reuse=*/false, tanh_of); }
void ChainTanhProgramReusing(benchmark::State& state) {
  run_chain_program(state, "aten.tanh", /*reuse=*/true, tanh_of);
}
void ChainViewDirect(benchmark::State& state) { run_chain(state, alias_of); }
void ChainViewProgram(benchmark::State& state) { run_chain_program(state, "aten.alias", /*reuse=*/true, alias_of); }

void CompileProgram(benchmark::State& state) {
  const Graph graph = chain("aten.tanh", state.range(0), torch::randn({2, 2}));
  for (auto _ : state) benchmark::DoNotOptimize(Program(graph).num_registers());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(FiveOperatorsEagerWithAutograd);
BENCHMARK(FiveOperatorsEagerNoGrad);
BENCHMARK(FiveOperatorsDirectBelowAutograd);
BENCHMARK(FiveOperatorsProgram)->ArgName("reuse")->Arg(0)->Arg(1);
BENCHMARK(ChainTanhDirect)->Arg(100);
BENCHMARK(ChainTanhBoxed)->Arg(100);
BENCHMARK(ChainTanhProgram)->Arg(100);
BENCHMARK(ChainTanhProgramReusing)->Arg(100);
BENCHMARK(ChainViewDirect)->Arg(100);
BENCHMARK(ChainViewProgram)->Arg(100);
BENCHMARK(CompileProgram)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
