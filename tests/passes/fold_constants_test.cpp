// Graph text in, graph text out, with the test runner as the evaluator.
#include "diptych/passes/fold_constants.h"

#include <torch/types.h>

#include "diptych/base/error.h"
#include "diptych/graph/identical.h"
#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

std::vector<at::Tensor> evaluate(const Graph& graph) { return testing::run_graph(graph, {}); }
Graph folded(const Graph& graph) { return fold_constants(graph, evaluate); }

TEST(FoldConstants, ComputesWhatDependsOnNoInput) {
  testing::expect_pass(folded, R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.ones([2])
  %2 : f32[2] = constant 0
  %3 : f32[2] = aten.sub.Tensor(%2, %1)
  %4 : f32[2] = aten.add.Tensor(%0, %3)
  return (%4 y)
)",
                       R"(graph f(%0 x : f32[2])
  %1 : f32[2] = constant 0
  %2 : f32[2] = aten.add.Tensor(%0, %1)
  return (%2 y)
)",
                       {torch::full({2}, 3.0)});
}

// The bit of a lazy conjugate is the tensor's alone: who compares or stores constants reads their memory.
TEST(FoldConstants, ResolvesLazyConjugatesAndNegatives) {
  const char* text = R"(graph f(%0 x : c64[2])
  %1 : c64[2] = constant 0
  %2 : c64[2] = aten._conj(%1)
  %3 : f32[2] = aten.imag(%2)
  %4 : c64[2] = aten.mul.Tensor(%0, %2)
  %5 : c64[2] = aten.mul.Tensor(%4, %3)
  return (%5 y)
)";
  const at::Tensor i = torch::complex(torch::zeros({2}), torch::ones({2}));
  const Graph graph = folded(parse(text, {i}));
  ASSERT_EQ(graph.constants().size(), 2U);
  for (const at::Tensor& constant : graph.constants()) EXPECT_FALSE(constant.is_conj() || constant.is_neg());
  EXPECT_FALSE(identical_tensors(i, i.conj())) << "the bytes are the same, the numbers are not";
  EXPECT_TRUE(identical_tensors(graph.constants()[0], i.conj()));
}

TEST(FoldConstants, MakesOutputsAnewAtEachCall) {
  const char* text = R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.ones([2])
  %2 : f32[1,2] = aten.unsqueeze(%1, 0)
  return (%2 y)
)";
  testing::expect_pass(folded, text, text);
}

TEST(FoldConstants, DrawsAnewAtEachCall) {
  const char* text = R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.rand([2])
  %2 : f32[2] = aten.add.Tensor(%0, %1)
  return (%2 y)
)";
  testing::expect_pass(folded, text, text);
}

TEST(FoldConstants, LeavesLargeResultsToTheCall) {
  const auto graph = parse(R"(graph f(%0 x : f32[100])
  %1 : f32[100] = aten.ones([100])
  %2 : f32[100] = aten.add.Tensor(%0, %1)
  return (%2 y)
)");
  EXPECT_EQ(fold_constants(graph, evaluate, {.max_bytes = 399}).constants().size(), 0U);
  EXPECT_EQ(fold_constants(graph, evaluate, {.max_bytes = 400}).constants().size(), 1U);
}

TEST(FoldConstants, ChecksTheEvaluator) {
  const auto graph = parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.ones([2])
  %2 : f32[2] = aten.add.Tensor(%0, %1)
  return (%2 y)
)");
  EXPECT_THROW(fold_constants(graph, [](const Graph&) { return std::vector<at::Tensor>{}; }), InternalError);
}

}  // namespace
}  // namespace diptych
