#include "diptych/backend/interpreter_backend.h"

#include "diptych/backend/checked_executable.h"
#include "diptych/base/error.h"
#include "diptych/interpreter/hop_rules.h"
#include "interpreter/graph_builder.h"
#include "testing/call_checks.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

using test::GraphBuilder;
using test::same_bits;

Graph sine_graph() {
  GraphBuilder builder("sine");
  const Value x = builder.input(torch::randn({4}));
  Graph graph = builder.finish({x, builder.node("aten.sin", {x})});
  graph.rename_slots(graph.input_slots(), {{SlotKind::kOutput, "y"}, {SlotKind::kResidual, "residual.0"}});
  return graph;
}

TEST(InterpreterBackend, RunsWhatItCompiles) {
  const InterpreterBackend backend;
  EXPECT_EQ(backend.name(), "interpreter");
  const auto x = torch::randn({4});
  for (const auto& executable : {backend.compile(sine_graph()), interpreter_compiler()(sine_graph())}) {
    const auto results = executable->run({x});
    EXPECT_TRUE(results[0].is_same(x));
    EXPECT_TRUE(same_bits(results[1], x.sin()));
  }
}

TEST(InterpreterBackend, TakesEveryAtenNodeAndRuledHigherOrderNodes) {
  const InterpreterBackend backend;
  const Graph graph = sine_graph();
  EXPECT_TRUE(backend.supports(graph, graph.nodes()[0]));
  static const HopSchema kRuled("test_ruled()", {}), kUnruled("test_never_ruled()", {});
  EXPECT_FALSE(backend.supports(graph, test::make_node(Op(&kUnruled))));
  EXPECT_FALSE(backend.supports(graph, test::make_node(Op(&kRuled))));
  register_interpreter_rule(kRuled, [](const Node&) -> HopKernel { return nullptr; });
  EXPECT_TRUE(backend.supports(graph, test::make_node(Op(&kRuled))));
}

TEST(InterpreterBackend, FillsTheProfileItIsGiven) {
  Profile profile;
  const auto executable = interpreter_compiler({.program = {}, .profile = &profile})(sine_graph());
  executable->run({torch::randn({4})});
  executable->run({torch::randn({4})});
  ASSERT_EQ(profile.rows().size(), 1U);
  EXPECT_EQ(profile.rows()[0].calls, 2);
}

// An executable that returns whatever it was told to.
class Liar final : public Executable {
 public:
  explicit Liar(std::vector<at::Tensor> outputs) : outputs_(std::move(outputs)) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor>&&) const override { return outputs_; }
  mutable std::vector<at::Tensor> outputs_;
};

std::string complaint(std::vector<at::Tensor> outputs) {
  const auto executable = checked_executable(std::make_shared<Liar>(std::move(outputs)), sine_graph(), "liar");
  return testing::message_of([&] { executable->run({torch::randn({4})}); });
}

TEST(CheckedExecutable, AcceptsWhatTheGraphSays) {
  EXPECT_EQ(complaint({torch::ones({4}), torch::ones({4})}), "nothing was thrown");
}

TEST(CheckedExecutable, NamesTheOutputThatDiffers) {
  const auto remedy = "; a compiler must return what the graph's metadata says";
  EXPECT_EQ(complaint({torch::ones({4})}), std::string("[backend liar] returned 1 outputs, expected 2") + remedy);
  EXPECT_EQ(complaint({torch::ones({4}), torch::ones({3})}),
            std::string("[backend liar] output 1 (residual.0) came back as f32[3], expected f32[4]") + remedy);
  EXPECT_EQ(complaint({torch::ones({4}, at::kDouble), torch::ones({4})}),
            std::string("[backend liar] output 0 (y) came back as f64[4], expected f32[4]") + remedy);
  EXPECT_EQ(complaint({torch::ones({4}), at::Tensor()}),
            std::string("[backend liar] output 1 (residual.0) came back as undefined, expected f32[4]") + remedy);
  EXPECT_EQ(
      complaint({torch::ones({4}), torch::ones({2, 2}).to_sparse()}),
      std::string("[backend liar] output 1 (residual.0) came back as a tensor that is not strided, expected f32[4]") +
          remedy);
}

TEST(CheckedExecutable, WantsUndefinedWhereTheGraphSaysNone) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Graph graph = builder.finish({Value{}, x});
  const auto liar = std::make_shared<Liar>(std::vector<at::Tensor>{torch::ones({4}), torch::ones({4})});
  EXPECT_THROW(checked_executable(liar, graph, "liar")->run({torch::ones({4})}), UserError);
}

TEST(CheckedExecutable, ChecksTheFirstRunOnly) {
  const testing::CallChecks off(false);
  auto liar = std::make_shared<Liar>(std::vector<at::Tensor>{torch::ones({4}), torch::ones({4})});
  const auto executable = checked_executable(liar, sine_graph(), "liar");
  executable->run({torch::randn({4})});
  liar->outputs_ = {torch::ones({9}), torch::ones({9})};
  EXPECT_EQ(executable->run({torch::randn({4})}).size(), 2U);
  liar->outputs_ = {torch::ones({9})};  // but for their number, which later code relies on
  EXPECT_THROW((void)executable->run({torch::randn({4})}), UserError);
}

TEST(CheckedExecutable, RefusesACompilerThatReturnsNothing) {
  EXPECT_EQ(testing::message_of([] { checked_executable(nullptr, sine_graph(), "lazy"); }),
            "[backend lazy] returned no executable for graph 'sine'; a compiler must return one");
}

TEST(CheckedExecutable, EvaluatesDynamicSizes) {
  Graph graph("dynamic");
  const SizeExpr size = SizeExpr::symbol("s0", 4);
  TensorMeta meta;
  meta.sizes = {size};
  meta.strides = {SizeExpr(1)};
  const Value x = graph.add_input(meta, {SlotKind::kArgument, "x"});
  graph.set_outputs({x}, {{SlotKind::kOutput, "y"}});
  const auto good = checked_executable(interpreter_compiler()(graph), graph, "interpreter");
  EXPECT_EQ(good->run({torch::ones({7})})[0].size(0), 7);
  const auto liar = std::make_shared<Liar>(std::vector<at::Tensor>{torch::ones({4})});
  EXPECT_THROW(checked_executable(liar, graph, "liar")->run({torch::ones({7})}), UserError);
}

}  // namespace
}  // namespace diptych
