#include "diptych/backend/fallback.h"

#include <set>

#include "diptych/backend/interpreter_backend.h"
#include "diptych/base/error.h"
#include "diptych/base/switches.h"
#include "interpreter/graph_builder.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using test::same_bits;

// Takes the named operators only, runs them by the interpreter, and remembers which graphs it was given.
class PickyBackend final : public Backend {
 public:
  explicit PickyBackend(std::set<std::string> taken) : taken_(std::move(taken)) {}
  std::string name() const override { return "picky"; }
  bool supports(const Graph&, const Node& node) const override { return taken_.count(node.op.name()) != 0; }
  std::shared_ptr<const Executable> compile(const Graph& graph) const override {
    for (const Node& node : graph.nodes()) EXPECT_TRUE(supports(graph, node)) << node.op.name();
    compiled.push_back(graph);
    return InterpreterBackend().compile(graph);
  }
  mutable std::vector<Graph> compiled;

 private:
  std::set<std::string> taken_;
};

struct Chain {
  Chain() {
    x = builder.input(torch::randn({3, 3}));
    unused = builder.input(torch::randn({2}));
    constant = builder.constant(torch::randn({3}));
    a = builder.node("aten.sin", {x});
    b = builder.node("aten.mul.Tensor", {a, constant});
    builder.scope = InternedString("block0");
    c = builder.node("aten.mm", {b, x});
    d = builder.node("aten.add.Tensor", {c, a});
    parts = builder.nodes("aten.split.Tensor", {d, c10::IValue(1), c10::IValue(0)});
    e = builder.node("aten.sin", {parts[1]});
  }
  std::vector<Value> outputs() const { return {e, x, Value{}, constant, parts[0], e}; }
  void expect_right(const Executable& executable) {
    auto results = executable.run({builder.example(x), builder.example(unused)});
    const auto expected = outputs();
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(results[i].defined(), static_cast<bool>(expected[i]));
      if (!expected[i]) continue;
      EXPECT_TRUE(same_bits(results[i], builder.example(expected[i]))) << "output " << i;
    }
  }
  GraphBuilder builder;
  Value x, unused, constant, a, b, c, d, e;
  std::vector<Value> parts;
};

TEST(Fallback, RunsUnsupportedNodesByTheInterpreterAndReportsThem) {
  Chain chain;
  const Graph graph = chain.builder.finish(chain.outputs());
  const PickyBackend backend({"aten.sin", "aten.mul.Tensor", "aten.add.Tensor"});
  std::vector<std::string> lines;
  set_log("graphs");
  set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  const auto executable = compile_with_fallback(backend, graph);
  set_log_sink({});
  set_log("");

  const auto fallback = fallback_nodes(*executable);
  ASSERT_EQ(fallback.size(), 2U);
  EXPECT_EQ(fallback[0].index, 2U);
  EXPECT_NE(fallback[0].text.find("aten.mm"), std::string::npos);
  EXPECT_NE(fallback[0].text.find("# block0"), std::string::npos);
  EXPECT_EQ(fallback[1].index, 4U);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("[backend picky] the interpreter runs node 2 of graph 'graph': "), std::string::npos)
      << lines[0];

  ASSERT_EQ(backend.compiled.size(), 3U);
  EXPECT_EQ(backend.compiled[0].nodes().size(), 2U);  // neighbours are compiled together
  for (int repeat = 0; repeat < 2; ++repeat) chain.expect_right(*executable);
}

TEST(Fallback, CompilesASupportedGraphAsItStands) {
  Chain chain;
  const Graph graph = chain.builder.finish(chain.outputs());
  const PickyBackend backend({"aten.sin", "aten.mul.Tensor", "aten.add.Tensor", "aten.mm", "aten.split.Tensor"});
  const auto executable = compile_with_fallback(backend, graph);
  ASSERT_EQ(backend.compiled.size(), 1U);
  EXPECT_EQ(backend.compiled[0].name(), graph.name());
  EXPECT_TRUE(fallback_nodes(*executable).empty());
  chain.expect_right(*executable);
}

TEST(Fallback, RunsAGraphOfWhichNothingIsSupported) {
  Chain chain;
  const Graph graph = chain.builder.finish(chain.outputs());
  const PickyBackend backend({});
  const auto executable = compile_with_fallback(backend, graph);
  EXPECT_TRUE(backend.compiled.empty());
  EXPECT_EQ(fallback_nodes(*executable).size(), graph.nodes().size());
  chain.expect_right(*executable);
}

TEST(Fallback, FreesInputsAtTheirLastPart) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Value y = builder.input(torch::randn({4}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.sum", {a});  // a tensor of its own, where a cosine would be written over `x`
  const Graph graph = builder.finish({b});
  (void)y;
  const auto executable = compile_with_fallback(PickyBackend({"aten.sin"}), graph);
  auto inputs = std::vector<at::Tensor>{torch::randn({4}), torch::randn({4})};
  std::vector<c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl>> watched;
  for (const auto& input : inputs) watched.emplace_back(input.getIntrusivePtr());
  const auto results = executable->run(std::move(inputs));
  for (const auto& weak : watched) EXPECT_TRUE(weak.expired());
}

TEST(Fallback, KeepsRandomNodesThatNobodyReads) {
  GraphBuilder builder;
  const Value x = builder.input(torch::zeros({4}));
  torch::manual_seed(5);
  builder.node("aten.rand_like", {x});  // unused, yet it draws
  const Value noise = builder.node("aten.bernoulli.p", {x, c10::IValue(0.5)});
  const Value y = builder.node("aten.sin", {noise});
  const auto executable = compile_with_fallback(PickyBackend({"aten.sin"}), builder.finish({y}));
  torch::manual_seed(5);
  EXPECT_TRUE(same_bits(executable->run({torch::zeros({4})})[0], builder.example(y)));
}

TEST(Fallback, CountsInputs) {
  Chain chain;
  const auto executable = compile_with_fallback(PickyBackend({"aten.sin"}), chain.builder.finish(chain.outputs()));
  testing::expect_error([&] { executable->run({torch::randn({3, 3})}); }, "got 1 inputs, expected 2");
}

}  // namespace
}  // namespace diptych
