// Which nodes become one kernel, and that the graph still computes the same.
#include "diptych/native/fusion/fuse.h"

#include <gtest/gtest.h>

#include <set>

#include "diptych/graph/verify.h"
#include "diptych/interpreter/program.h"
#include "diptych/native/fusion/fused_node.h"
#include "diptych/native/fusion/reachability.h"
#include "diptych/native/prepare/prepare.h"
#include "interpreter/graph_builder.h"
#include "testing/same_tensors.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using Names = std::vector<std::string>;

// The operators of a graph, fused nodes by the operators of their bodies: "{tanh mul.Tensor}".
Names operators(const Graph& graph) {
  Names names;
  for (const Node& node : graph.nodes()) {
    if (!is_fused(node)) {
      names.push_back(node.op.name().substr(node.op.name().find('.') + 1));
      continue;
    }
    std::string text;
    for (const std::string& name : operators(*node.subgraphs[0])) text += (text.empty() ? "{" : " ") + name;
    names.push_back(text + "}");
  }
  return names;
}

std::vector<at::Tensor> examples(const GraphBuilder& builder, const std::vector<Value>& values) {
  std::vector<at::Tensor> tensors;
  for (const Value value : values) tensors.push_back(builder.example(value));
  return tensors;
}

// Fuses a graph and checks that the result verifies, computes the same and is not fused any further.
Graph fused(GraphBuilder& builder, const std::vector<Value>& outputs) {
  const Graph graph = builder.finish(outputs);
  Graph result = fuse(graph);
  verify(result);
  EXPECT_EQ(result.output_slots().size(), outputs.size());
  EXPECT_EQ(fuse(result).code(), result.code());
  const auto got = Program(result).run(examples(builder, graph.inputs()));
  const auto same = testing::same_tensors(got, examples(builder, outputs),
                                          {.rtol = 1e-4, .of_largest = 1e-5, .equal_nan = true, .strides = true});
  EXPECT_TRUE(same) << result.code();
  return result;
}

TEST(Fusion, MakesOneGroupOfAChain) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 5})), y = builder.input(torch::randn({5}));
  const Value a = builder.node("aten.tanh", {x});
  const Value b = builder.node("aten.mul.Tensor", {a, y});
  const Value c = builder.node("aten.add.Tensor", {b, x});
  const Graph graph = fused(builder, {c});
  EXPECT_EQ(operators(graph), Names{"{tanh mul.Tensor add.Tensor}"});
  EXPECT_EQ(graph.nodes()[0].subgraphs[0]->inputs().size(), 2U);
}

TEST(Fusion, LeavesALoneNodeToItsOperator) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 5}));
  EXPECT_EQ(operators(fused(builder, {builder.node("aten.add.Tensor", {x, x})})), Names{"add.Tensor"});
}

TEST(Fusion, StoresWhatOthersRead) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 4}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.mul.Tensor", {a, x});
  const Value c = builder.node("aten.mm", {a, b});
  const Value d = builder.node("aten.relu", {c});
  const Value e = builder.node("aten.add.Tensor", {d, b});
  const Graph graph = fused(builder, {e});
  EXPECT_EQ(operators(graph), (Names{"{sin mul.Tensor}", "mm", "{relu add.Tensor}"}));
  EXPECT_EQ(graph.nodes()[0].outputs.size(), 2U);
}

TEST(Fusion, NeverWaitsForItself) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 4}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.mm", {a, a});
  const Value c = builder.node("aten.add.Tensor", {a, b});
  const Value d = builder.node("aten.relu", {c});
  EXPECT_EQ(operators(fused(builder, {d})), (Names{"sin", "mm", "{add.Tensor relu}"}));
}

TEST(Fusion, KeepsARowInOneKernel) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({32, 50}));
  const Value largest = builder.node("aten.amax", {x, c10::IValue(std::vector<int64_t>{1}), c10::IValue(true)});
  const Value shifted = builder.node("aten.sub.Tensor", {x, largest});
  const Value e = builder.node("aten.exp", {shifted});
  const Value sum = builder.node("aten.sum.dim_IntList", {e, c10::IValue(std::vector<int64_t>{1}), c10::IValue(true)});
  const Value y = builder.node("aten.div.Tensor", {e, sum});
  EXPECT_EQ(operators(fused(builder, {y})), Names{"{amax sub.Tensor exp sum.dim_IntList div.Tensor}"});
}

TEST(Fusion, AddsUpColumnsBesideRows) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({32, 50}));
  const std::vector<int64_t> row{1}, column{0};
  const Value y = builder.node("aten.tanh", {x});
  const Value mean = builder.node("aten.mean.dim", {y, c10::IValue(row), c10::IValue(true)});
  const Value centered = builder.node("aten.sub.Tensor", {y, mean});
  const Value columns = builder.node("aten.sum.dim_IntList", {centered, c10::IValue(column)});
  const Value scaled = builder.node("aten.mul.Scalar", {columns, c10::IValue(0.5)});
  EXPECT_EQ(operators(fused(builder, {centered, scaled})),
            Names{"{tanh mean.dim sub.Tensor sum.dim_IntList mul.Scalar}"});
}

TEST(Fusion, EndsAtASumOfAllThatRowsNeed) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({300, 300}));
  const Value squares = builder.node("aten.mul.Tensor", {x, x});
  const Value sum = builder.node("aten.sum", {squares});
  const Value y = builder.node("aten.div.Tensor", {x, sum});
  const Value z = builder.node("aten.relu", {y});
  // A whole tensor as one row would be one thread's work.
  EXPECT_EQ(operators(fused(builder, {z})), (Names{"{mul.Tensor sum}", "{div.Tensor relu}"}));
}

TEST(Fusion, ComputesNothingExpensiveForEachRow) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({64, 50})), gamma = builder.input(torch::randn({50}));
  const Value cheap = builder.node("aten.add.Scalar", {gamma, c10::IValue(1.0)});
  const Value dear = builder.node("aten.exp", {gamma});
  const Value a = builder.node("aten.mul.Tensor", {x, cheap});
  const Value b = builder.node("aten.mul.Tensor", {a, dear});
  EXPECT_EQ(operators(fused(builder, {b})), (Names{"exp", "{add.Scalar mul.Tensor mul.Tensor}"}));
}

TEST(Fusion, MergesReadersOfOneTensor) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({64, 50}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.mm", {builder.node("aten.t", {a}), x});
  const Value c = builder.node("aten.cos", {x});
  EXPECT_EQ(operators(fused(builder, {b, c})), (Names{"{sin cos}", "t", "mm"}));
}

TEST(Fusion, LooksThroughViews) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 6}));
  const Value a = builder.node("aten.sin", {x});
  const Value flat = builder.node("aten.view", {a, c10::IValue(std::vector<int64_t>{24})});
  const Value b = builder.node("aten.relu", {flat});
  const Value turned = builder.node("aten.t", {a});
  const Value c = builder.node("aten.mm", {x, turned});
  const Graph graph = fused(builder, {b, c, flat});
  EXPECT_EQ(operators(graph), (Names{"{sin view relu}", "view", "t", "mm"}));
  EXPECT_EQ(graph.nodes()[0].outputs.size(), 2U);
}

TEST(Fusion, TakesColumnsOfTheTransposed) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 6}));
  const Value a = builder.node("aten.sin", {x});
  const Value turned = builder.node("aten.t", {a});
  const Value own = builder.node("aten.clone", {turned, c10::IValue(at::MemoryFormat::Contiguous)});
  EXPECT_EQ(operators(fused(builder, {own})), Names{"{sin t clone}"});
}

TEST(Fusion, KeepsDrawsInOrder) {
  GraphBuilder builder;
  const Value x = builder.input(torch::rand({8, 8}));
  const Value a = builder.node("aten.bernoulli", {x});
  const Value b = builder.node("aten.mul.Tensor", {a, x});
  const Value c = builder.node("aten.rand_like", {x});
  const Value d = builder.node("aten.mul.Tensor", {b, c});
  const Value e = builder.node("aten.bernoulli", {x});
  const Value f = builder.node("aten.add.Tensor", {d, e});
  const Graph graph = fuse(builder.finish({f}));
  EXPECT_EQ(operators(graph), (Names{"bernoulli", "rand_like", "bernoulli", "{mul.Tensor mul.Tensor add.Tensor}"}));
}

TEST(Fusion, StopsWhereMemoryIsWritten) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({8, 8})), y = builder.input(torch::randn({8, 8}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.add.Tensor", {a, x});
  builder.node("aten.add_.Tensor", {x, y});
  const Value c = builder.node("aten.mul.Tensor", {b, x});
  const Value d = builder.node("aten.relu", {c});
  const Graph graph = fuse(builder.finish({d}));
  EXPECT_EQ(operators(graph), (Names{"{sin add.Tensor}", "add_.Tensor", "{mul.Tensor relu}"}));
}

TEST(Fusion, TakesTensorsThatAreNoNumbersAsInputs) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 5}));
  const Value table = builder.constant(torch::randn({5})), two = builder.constant(torch::tensor(2.0));
  const Value a = builder.node("aten.mul.Tensor", {x, table});
  const Value b = builder.node("aten.mul.Tensor", {a, two});
  const Graph graph = fused(builder, {b});
  EXPECT_EQ(operators(graph), Names{"{mul.Tensor mul.Tensor}"});
  EXPECT_EQ(graph.nodes()[0].subgraphs[0]->inputs().size(), 2U);
  EXPECT_EQ(graph.nodes()[0].subgraphs[0]->constants().size(), 1U);
}

TEST(Fusion, AsksOnceMoreWhereNoKernelIsToBeHad) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 5}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.cos", {a});
  const Value c = builder.node("aten.tanh", {b});
  const Value d = builder.node("aten.relu", {c});
  const Graph graph = fuse(builder.finish({d}), [](const Graph& body) {
    return std::none_of(body.nodes().begin(), body.nodes().end(),
                        [](const Node& node) { return node.op.name() == "aten.tanh"; });
  });
  EXPECT_EQ(operators(graph), (Names{"{sin cos}", "tanh", "relu"}));
}

TEST(Prepare, DecomposesWhatKernelsTake) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({32, 20})), gamma = builder.input(torch::randn({20}));
  const Value a = builder.node("aten._softmax", {x, c10::IValue(1), c10::IValue(false)});
  const auto normed = builder.nodes("aten.native_layer_norm",
                                    {a, c10::IValue(std::vector<int64_t>{20}), gamma, Value{}, c10::IValue(1e-5)});
  const Value b = builder.node("aten.gelu", {normed[0]});
  const Graph graph = builder.finish({b});
  const Graph result = fuse(in_kernel_operators(graph));
  EXPECT_EQ(result.nodes().size(), 1U) << result.code();
  const auto got = Program(result).run({builder.example(x), builder.example(gamma)});
  EXPECT_TRUE(testing::same_tensors(got, {builder.example(b)}, testing::within(1e-4)));
}

TEST(Prepare, LeavesOthersToLibTorch) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({6, 4}, torch::kComplexFloat));
  const Value a =
      builder.node("aten._softmax", {builder.input(torch::randn({0, 4})), c10::IValue(1), c10::IValue(false)});
  const Value b = builder.node("aten.silu", {builder.input(torch::randn({3}, torch::kComplexFloat))});
  const Graph graph =
      in_kernel_operators(builder.finish({a, b, builder.node("aten.mm", {builder.node("aten.t", {x}), x})}));
  EXPECT_EQ(operators(graph), (Names{"_softmax", "silu", "t", "mm"}));
}

TEST(Reachability, SeesCyclesThroughOthers) {
  // 0 -> 1 -> 2 -> 3, 0 -> 3
  Reachability units({{}, {0}, {1}, {0, 2}});
  EXPECT_TRUE(units.would_be_cyclic(0, 3));
  EXPECT_TRUE(units.would_be_cyclic(0, 2));
  EXPECT_FALSE(units.would_be_cyclic(0, 1));
  const size_t merged = units.merge(1, 2);
  EXPECT_TRUE(units.would_be_cyclic(0, 3));
  EXPECT_FALSE(units.would_be_cyclic(0, merged));
  const size_t all = units.merge(0, units.merge(merged, 3));
  EXPECT_EQ(units.find(2), all);
}

}  // namespace
}  // namespace diptych
