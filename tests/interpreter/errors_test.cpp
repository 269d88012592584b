// The text of each message of the interpreter.
#include "diptych/base/switches.h"
#include "diptych/interpreter/call_checks.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/interpreter/program.h"
#include "interpreter/graph_builder.h"
#include "testing/call_checks.h"
#include "testing/expect_error.h"

namespace diptych {
namespace {

using test::GraphBuilder;
using testing::expect_contains;
using testing::expect_error;
using testing::message_of;

Graph product_graph() {
  GraphBuilder builder("forward");
  builder.scope = InternedString("block0/mlp");
  const Value a = builder.input(torch::randn({2, 3}));
  const Value b = builder.input(torch::randn({3, 4}));
  const Value doubled = builder.node("aten.add.Tensor", {a, a});
  return builder.finish({builder.node("aten.mm", {doubled, b})});
}

TEST(InterpreterErrors, NameTheNodeItsScopeAndItsOperands) {
  const Program program(product_graph());
  const auto text = message_of<UserError>([&] { program.run({torch::randn({2, 3}), torch::randn({5, 4})}); });
  expect_contains(text,
                  {"[interpreter] node 1 of graph 'forward' failed", "%3 : f32[2,4] = aten.mm(%2, %1)", "# block0/mlp",
                   "operands: %2: f32[2,3], %1: f32[5,4]", "c10::Error", "mat1 and mat2 shapes cannot be multiplied"});
}

TEST(InterpreterErrors, NestTheKernelsOwnException) {
  const Program program(product_graph());
  try {
    program.run({torch::randn({2, 3}), torch::randn({5, 4})});
    FAIL() << "nothing was thrown";
  } catch (const UserError& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), c10::Error);
  }
}

TEST(InterpreterErrors, KeepTheTypeOfTheKernelsException) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({3}));
  const Value index = builder.input(torch::tensor({1}));
  const Program program(builder.finish({builder.node("aten.index_select", {x, c10::IValue(0), index})}));
  expect_error<UserError>(
      [&] {
        program.run({torch::randn({3}), torch::tensor({7})});
      },
      {"aten.index_select(%0, 0, %1)", "Error: ", "index out of range"});
}

TEST(InterpreterErrors, LeaveTheProgramUsable) {
  const Program program(product_graph());
  EXPECT_THROW(program.run({torch::randn({2, 3}), torch::randn({5, 4})}), UserError);
  EXPECT_EQ(program.run({torch::randn({2, 3}), torch::randn({3, 4})})[0].sizes(), (std::vector<int64_t>{2, 4}));
}

TEST(InterpreterErrors, CountInputs) {
  const Program program(product_graph());
  expect_error<UserError>(
      [&] {
        program.run({torch::randn({2, 3})});
      },
      {"[interpreter] graph 'forward' got 1 inputs, expected 2"});
}

TEST(InterpreterErrors, NameAnUndefinedInput) {
  const Program program(product_graph());
  expect_error<UserError>(
      [&] {
        program.run({torch::randn({2, 3}), at::Tensor()});
      },
      {"[interpreter] input 1 (x1) of graph 'forward' is undefined, expected f32[3,4]"});
}

TEST(InterpreterErrors, TakeAnUndefinedInputThatIsOptional) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({2, 3}));
  const Value bias = builder.input(torch::randn({3}));
  const auto normed = builder.nodes("aten.native_layer_norm",
                                    {x, c10::IValue(std::vector<int64_t>{3}), Value{}, bias, c10::IValue(1e-5)});
  const Program program(builder.finish({normed[0]}));
  const auto input = torch::randn({2, 3});
  const auto result = program.run({input, at::Tensor()})[0];
  EXPECT_TRUE(test::same_bits(result, torch::layer_norm(input, {3})));
}

TEST(InterpreterErrors, NameAHigherOrderOperatorWithoutARule) {
  static const HopSchema kUnruled("test_unruled()", {});
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({2}));
  Node node = test::make_node(Op(&kUnruled));
  node.operands = {x};
  builder.graph().add_node(node, {TensorMeta::of(torch::randn({2}))});
  const Graph graph = builder.finish({builder.graph().nodes()[0].outputs[0]});
  expect_error<UserError>([&] { Program{graph}; },
                          {"node 0 of graph 'graph' failed", "there is no interpreter rule for hop.test_unruled"});
}

TEST(InterpreterErrors, NameSizesThatContradictEachOther) {
  Graph graph("dynamic");
  const SizeExpr size = SizeExpr::symbol("s0", 4);
  TensorMeta meta;
  meta.sizes = {size};
  meta.strides = {SizeExpr(1)};
  const Value x = graph.add_input(meta, {SlotKind::kArgument, "x"});
  const Value y = graph.add_input(meta, {SlotKind::kArgument, "y"});
  Node node = test::make_node(Op::find("aten.add.Tensor"));
  node.operands = {x, y, c10::IValue(1)};
  graph.add_node(node, {meta});
  graph.set_outputs({graph.nodes()[0].outputs[0]}, {{SlotKind::kOutput, "out"}});
  const Program program(graph);
  expect_error<UserError>(
      [&] {
        program.run({torch::randn({4}), torch::randn({1})});
      },
      {"input 1 (y) of graph 'dynamic', dimension 0 (s0) is 1, expected 4"});
}

TEST(InterpreterErrors, AreInternalForAMisshapenNode) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({2}));
  Node node = test::make_node(Op::find("aten.add.Tensor"));
  node.operands = {x};
  builder.graph().add_node(node, {TensorMeta::of(torch::randn({2}))});
  const Graph graph = builder.finish({builder.graph().nodes()[0].outputs[0]});
  expect_error<InternalError>([&] { Program{graph}; }, {"has 1 operands, the schema has 3"});
}

// A graph that says f32[3] of a node that gives f32[2].
Graph mistaken_graph() {
  Graph graph("mistaken");
  const Value x = graph.add_input(TensorMeta::of(torch::ones({2})), {SlotKind::kArgument, "x"});
  Node node = test::make_node(Op::find("aten.neg"));
  node.operands = {x};
  graph.add_node(node, {TensorMeta::of(torch::ones({3}))});
  graph.set_outputs({graph.nodes()[0].outputs[0]}, {{SlotKind::kOutput, "out"}});
  return graph;
}

TEST(InterpreterErrors, CheckedCallsNameTheNodeThatTheGraphIsMistakenAbout) {
  const Program program(mistaken_graph());
  const testing::CallChecks checked(true);
  for (const bool differentiable : {false, true}) {
    expect_error<InternalError>(
        [&] { program.run({torch::ones({2})}, {.differentiable = differentiable}); },
        {"result 0 of node 0 (%1 = aten.neg) of graph 'mistaken' is f32[2] on cpu, expected f32[3] on cpu"});
  }
  // A graph may be run on other sizes, and then says nothing of them.
  EXPECT_EQ(program.run({torch::ones({5})})[0].numel(), 5);
}

TEST(InterpreterErrors, CheckedCallsNameTheInputThatAGraphIsNotFor) {
  const Graph graph = product_graph();
  const testing::CallChecks checked(true);
  detail::check_call(graph, {torch::ones({2, 3}), torch::ones({3, 4})});
  detail::check_call(graph, {torch::ones({2, 3}), at::Tensor()});
  const auto message = [&](std::vector<at::Tensor> inputs) {
    return message_of<InternalError>([&] { detail::check_call(graph, inputs); });
  };
  expect_contains(message({torch::ones({2, 3})}), {"graph 'forward' takes 2 tensors and was called with 1"});
  expect_contains(message({torch::ones({2, 3}), torch::ones({3, 4}, torch::kDouble)}),
                  {"input 1 (x1) of graph 'forward' is f64[3,4] on cpu, expected f32[3,4] on cpu"});
  set_checks_calls(false);
  detail::check_call(graph, {});
}

}  // namespace
}  // namespace diptych
