#include "diptych/interpreter/program.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "diptych/base/error.h"
#include "diptych/graph/parse.h"
#include "diptych/interpreter/hop_rules.h"
#include "interpreter/graph_builder.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using test::same_bits;

// Runs the program on fresh copies of the builder's examples and compares with the values eager gave.
void expect_same_as_eager(GraphBuilder& builder, const std::vector<Value>& outputs) {
  const Program program(builder.finish(outputs));
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<at::Tensor> inputs;
    for (const Value input : program.graph().inputs()) inputs.push_back(builder.example(input).clone());
    const auto results = program.run(std::move(inputs));
    ASSERT_EQ(results.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(same_bits(results[i], builder.example(outputs[i]))) << "output " << i << " differs from eager";
    }
  }
}

TEST(Program, ComputesPointwiseChainsLikeEager) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({3, 4}));
  const Value y = builder.input(torch::randn({4}));
  const Value sum = builder.node("aten.add.Tensor", {x, y, c10::IValue(0.5)});
  const Value half = builder.node("aten.mul.Tensor", {sum, WrappedNumber{at::Scalar(0.5)}});
  const Value squashed = builder.node("aten.tanh", {half});
  const Value clamped = builder.node("aten.clamp", {squashed, c10::IValue(-0.25)});
  expect_same_as_eager(builder, {clamped, sum});
}

TEST(Program, KeepsWrappedNumbersOutOfPromotion) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({3}, torch::kHalf));
  const Value scaled = builder.node("aten.mul.Tensor", {x, WrappedNumber{at::Scalar(1.5)}});
  ASSERT_EQ(builder.example(scaled).scalar_type(), at::kHalf);
  expect_same_as_eager(builder, {scaled});
}

TEST(Program, PassesEveryKindOfConstant) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 6}));
  const Value cast = builder.node(
      "aten._to_copy", {x, c10::IValue(static_cast<int64_t>(at::kDouble)), c10::IValue(),
                        c10::IValue(at::Device(at::kCPU)), c10::IValue(), c10::IValue(false), c10::IValue()});
  const Value viewed = builder.node("aten.view", {cast, c10::IValue(std::vector<int64_t>{2, 12})});
  const Value summed =
      builder.node("aten.sum.dim_IntList", {viewed, c10::IValue(std::vector<int64_t>{1}), c10::IValue(true)});
  const Value divided = builder.node("aten.div.Tensor_mode", {viewed, summed, c10::IValue("floor")});
  const Value sliced =
      builder.node("aten.slice.Tensor", {divided, c10::IValue(1), c10::IValue(2), c10::IValue(), c10::IValue(3)});
  const Value ones = builder.node(
      "aten.ones", {c10::IValue(std::vector<int64_t>{2, 1}), c10::IValue(static_cast<int64_t>(at::kDouble))});
  const Value power =
      builder.node("aten.pow.Tensor_Scalar", {builder.node("aten.add.Tensor", {sliced, ones}), c10::IValue(2)});
  const Value variance =
      builder.node("aten.var.correction", {power, c10::IValue(std::vector<int64_t>{0}), c10::IValue(1)});
  expect_same_as_eager(builder, {power, variance});
}

TEST(Program, HandlesListsTuplesAndDroppedOutputs) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({6, 4}));
  const auto parts = builder.nodes("aten.split.Tensor", {x, c10::IValue(2), c10::IValue(0)});
  const Value joined = builder.node("aten.cat", {ValueList{parts[2], parts[0], parts[2]}, c10::IValue(1)});
  const Value stacked = builder.node("aten.stack", {ValueList{parts[0], parts[1]}, c10::IValue(0)});
  const auto largest = builder.nodes("aten.max.dim", {joined, c10::IValue(1), c10::IValue(false)});
  expect_same_as_eager(builder, {joined, stacked, largest[1]});
}

TEST(Program, PassesNoneForOptionalTensorsAndLists) {
  GraphBuilder builder;
  const Value image = builder.input(torch::randn({1, 2, 5, 5}));
  const Value weight = builder.input(torch::randn({3, 2, 3, 3}));
  const auto ints = [](int64_t a, int64_t b) { return c10::IValue(std::vector<int64_t>{a, b}); };
  const Value convolved = builder.node("aten.convolution", {image, weight, Value{}, ints(1, 1), ints(1, 1), ints(1, 1),
                                                            c10::IValue(false), ints(0, 0), c10::IValue(1)});
  const Value rows = builder.constant(torch::tensor({2, 0}));
  const Value picked = builder.node("aten.index.Tensor", {convolved, ValueList{Value{}, rows}});
  expect_same_as_eager(builder, {convolved, picked});
}

TEST(Program, LeavesUndefinedOutputsUndefined) {
  GraphBuilder builder;
  const Value grad = builder.input(torch::randn({2, 3}));
  const Value x = builder.input(torch::randn({2, 3}));
  const Value mean = builder.input(torch::randn({2, 1}));
  const Value rstd = builder.input(torch::rand({2, 1}));
  const Value weight = builder.input(torch::randn({3}));
  const auto grads = builder.nodes("aten.native_layer_norm_backward",
                                   {grad, x, c10::IValue(std::vector<int64_t>{3}), mean, rstd, weight, Value{},
                                    c10::IValue(c10::List<bool>({true, false, false}))});
  ASSERT_FALSE(grads[1]);
  const Program program(builder.finish({grads[0], grads[1]}));
  std::vector<at::Tensor> inputs;
  for (const Value input : program.graph().inputs()) inputs.push_back(builder.example(input));
  const auto results = program.run(std::move(inputs));
  EXPECT_TRUE(same_bits(results[0], builder.example(grads[0])));
  EXPECT_FALSE(results[1].defined());
}

TEST(Program, CallsOperatorsOutsideTheSignatureTableBoxed) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({3, 8}));
  const Value spectrum =
      builder.node("aten._fft_r2c", {x, c10::IValue(std::vector<int64_t>{1}), c10::IValue(0), c10::IValue(true)});
  const Value real = builder.node("aten.abs", {spectrum});
  const auto parts = builder.nodes("aten.histc", {real, c10::IValue(4)});
  const Graph graph = builder.finish({real, parts[0]});
  EXPECT_GE(Program(graph).call_counts().boxed, 1U);
  expect_same_as_eager(builder, {real, parts[0]});
}

TEST(Program, RunsMutatingNodesOnTheTensorItself) {
  GraphBuilder builder;
  const Value x = builder.input(torch::zeros({3}));
  const Value y = builder.node("aten.add_.Tensor", {x, WrappedNumber{at::Scalar(1)}});
  const Program program(builder.finish({y}));
  auto held = torch::zeros({3});
  const auto result = program.run({held})[0];
  EXPECT_TRUE(result.is_same(held));
  EXPECT_TRUE(same_bits(held, torch::ones({3})));
}

TEST(Program, ReturnsInputsConstantsAndRepeatedValues) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({2}));
  const Value unused = builder.input(torch::randn({2}));
  const Value constant = builder.constant(torch::randn({2}));
  const Value doubled = builder.node("aten.add.Tensor", {x, x});
  (void)unused;
  const Program program(builder.finish({x, doubled, constant, doubled, Value{}, x}));
  const auto input = builder.example(x).clone();
  const auto results = program.run({input, builder.example(unused)});
  EXPECT_TRUE(results[0].is_same(input));
  EXPECT_TRUE(results[5].is_same(input));
  EXPECT_TRUE(results[1].is_same(results[3]));
  EXPECT_TRUE(results[2].is_same(builder.example(constant)));
  EXPECT_FALSE(results[4].defined());
}

TEST(Program, DrawsRandomNumbersAsEagerDoes) {
  GraphBuilder builder;
  const Value x = builder.input(torch::ones({64}));
  torch::manual_seed(7);
  const auto dropped = builder.nodes("aten.native_dropout", {x, c10::IValue(0.5), c10::IValue(true)});
  const Value noise = builder.node("aten.rand_like", {x});
  const Program program(builder.finish({dropped[0], noise}));
  torch::manual_seed(7);
  const auto results = program.run({builder.example(x).clone()});
  EXPECT_TRUE(same_bits(results[0], builder.example(dropped[0])));
  EXPECT_TRUE(same_bits(results[1], builder.example(noise)));
}

TEST(Program, DrawsFromACustomGenerator) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  GraphBuilder builder;
  const Value x = builder.input(torch::full({64}, 0.5));
  const Value drawn = builder.node("aten.bernoulli", {x, c10::IValue(generator)});
  const Program program(builder.finish({drawn}));
  generator.set_current_seed(3);
  EXPECT_TRUE(same_bits(program.run({builder.example(x)})[0], builder.example(drawn)));
  // The graph reads the generator and does not own a copy of it: the next draw is another one.
  EXPECT_FALSE(same_bits(program.run({builder.example(x)})[0], builder.example(drawn)));
}

TEST(Program, EvaluatesDynamicSizesFromItsInputs) {
  Graph graph("dynamic");
  const SizeExpr rows = SizeExpr::symbol("s0", 4), columns = SizeExpr::symbol("s1", 3);
  TensorMeta meta;
  meta.sizes = {rows, columns};
  meta.strides = {columns, SizeExpr(1)};
  const Value x = graph.add_input(meta, {SlotKind::kArgument, "x"});
  TensorMeta flat;
  flat.sizes = {rows * columns};
  flat.strides = {SizeExpr(1)};
  Node view = test::make_node(Op::find("aten.view"));
  view.operands = {x, Sizes{rows * columns}};
  graph.add_node(view, {flat});
  Node sum = test::make_node(Op::find("aten.slice.Tensor"));
  const Value viewed = graph.nodes()[0].outputs[0];
  sum.operands = {viewed, c10::IValue(0), c10::IValue(0), rows, c10::IValue(1)};
  TensorMeta head;
  head.sizes = {rows};
  head.strides = {SizeExpr(1)};
  graph.add_node(sum, {head});
  graph.set_outputs({viewed, graph.nodes()[1].outputs[0]}, {{SlotKind::kOutput, "a"}, {SlotKind::kOutput, "b"}});
  const Program program(graph);
  for (const auto& [n, m] : {std::pair<int64_t, int64_t>{4, 3}, {7, 2}, {1, 9}, {7, 2}}) {
    const auto input = torch::randn({n, m});
    const auto results = program.run({input});
    EXPECT_TRUE(same_bits(results[0], input.reshape({n * m})));
    EXPECT_TRUE(same_bits(results[1], input.reshape({n * m}).slice(0, 0, n)));
  }
}

TEST(Program, RunsOnSeveralThreadsAtOnce) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({32}));
  Value value = x;
  for (int i = 0; i < 20; ++i) value = builder.node(i % 2 == 0 ? "aten.sin" : "aten.tanh", {value});
  const Value product =
      builder.node("aten._fft_r2c", {value, c10::IValue(std::vector<int64_t>{0}), c10::IValue(0), c10::IValue(true)});
  const Program program(builder.finish({value, product}));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto results = program.run({builder.example(x).clone()});
        if (!same_bits(results[0], builder.example(value)) || !same_bits(results[1], builder.example(product))) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A higher-order operator that runs its subgraph twice, for tests of the rule table and of re-entrance.
const HopSchema kTwice("test_twice(Tensor x)", {"body"});

void register_twice() {
  register_interpreter_rule(kTwice, [](const Node& node) -> HopKernel {
    auto body = std::make_shared<const Program>(*node.subgraphs.at(0));
    return [body](std::vector<c10::IValue>&& operands, const RunOptions& options) {
      auto once = body->run({std::move(operands.at(0)).toTensor()}, {options.differentiable});
      return body->run(std::move(once), {options.differentiable});
    };
  });
}

Graph make_twice_graph(const at::Tensor& example, int depth) {
  GraphBuilder builder("depth" + std::to_string(depth));
  const Value x = builder.input(example);
  if (depth == 0) return builder.finish({builder.node("aten.sin", {x})});
  Node node = test::make_node(Op(&kTwice));
  node.operands = {x};
  node.subgraphs = {std::make_shared<const Graph>(make_twice_graph(example, depth - 1))};
  builder.graph().add_node(node, {TensorMeta::of(example)});
  return builder.finish({builder.graph().nodes()[0].outputs[0]});
}

TEST(Program, RunsHigherOrderNodesByTheirRule) {
  register_twice();
  const auto example = torch::randn({5});
  const Program program(make_twice_graph(example, 3));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  auto expected = example;
  for (int i = 0; i < 8; ++i) expected = expected.sin();
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) wrong += same_bits(program.run({example})[0], expected) ? 0 : 1;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// A capture makes none, but a text may hold one.
TEST(Program, HandsHigherOrderNodesAnAbsentOperand) {
  static const HopSchema kGaps("test_gaps(Tensor absent, Tensor x)", {});
  register_interpreter_rule(kGaps, [](const Node&) -> HopKernel {
    return [](std::vector<c10::IValue>&& operands, const RunOptions&) {
      EXPECT_FALSE(operands.at(0).toTensor().defined());
      return std::vector<at::Tensor>{operands.at(1).toTensor() + 1};
    };
  });
  const Graph graph =
      parse("graph f(%0 x : f32[2])\n  %1 : f32[2] = hop.test_gaps(absent=none, x=%0)\n  return (%1 y)\n", {},
            [](std::string_view) -> const HopSchema* { return &kGaps; });
  EXPECT_TRUE(Program(graph).run({torch::ones({2})})[0].equal(torch::full({2}, 2.0F)));
}

TEST(Program, RecordsGradientsInDifferentiableMode) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Value squared = builder.node("aten.mul.Tensor", {x, x});
  const Value gate = builder.node("aten.sigmoid", {x}, /*grad_enabled=*/false);
  const Value gated = builder.node("aten.mul.Tensor", {squared, gate});
  const Program program(builder.finish({gated}));
  auto input = builder.example(x).clone().requires_grad_();
  const auto result = program.run({input}, {.differentiable = true})[0];
  ASSERT_TRUE(result.requires_grad());
  result.sum().backward();
  auto reference = builder.example(x).clone().requires_grad_();
  at::Tensor constant_gate;
  {
    const torch::NoGradGuard no_grad;
    constant_gate = reference.sigmoid();
  }
  (reference * reference * constant_gate).sum().backward();
  EXPECT_TRUE(same_bits(input.grad(), reference.grad()));
}

TEST(Program, RecordsNothingOtherwise) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Program program(builder.finish({builder.node("aten.sin", {x})}));
  EXPECT_FALSE(program.run({torch::randn({4}).requires_grad_()})[0].requires_grad());
}

TEST(Program, ProfilesEachNode) {
  GraphBuilder builder;
  builder.scope = InternedString("block0");
  const Value x = builder.input(torch::randn({8, 8}));
  const Value y = builder.node("aten.mm", {x, x});
  const Value z = builder.node("aten.relu", {y});
  const Program program(builder.finish({z}));
  Profile profile;
  for (int i = 0; i < 3; ++i) program.run({builder.example(x)}, {.differentiable = false, .profile = &profile});
  const auto rows = profile.rows();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].node, fmt::format("%{} = aten.mm", y.id));
  EXPECT_EQ(rows[0].scope, "block0");
  EXPECT_EQ(rows[0].call, "direct");
  EXPECT_EQ(rows[1].call, "in place");
  for (const auto& row : rows) {
    EXPECT_EQ(row.calls, 3);
    EXPECT_GT(row.total_ns, 0);
    EXPECT_EQ(row.output_bytes, 3 * 8 * 8 * 4);
  }
  EXPECT_NE(profile.table().find("aten.mm"), std::string::npos);
  EXPECT_NE(profile.table().find("total"), std::string::npos);
}

}  // namespace
}  // namespace diptych
