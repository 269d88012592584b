// Tests of passes: graph text in, graph text out, and both graphs run.
#pragma once
#include "diptych/graph/identical.h"
#include "diptych/graph/parse.h"
#include "testing/graph_writer.h"

namespace diptych::testing {

using namespace detail;

/// Random inputs for `graph`, from a fixed seed; floating tensors only.
inline std::vector<at::Tensor> random_inputs(const Graph& graph) {
  torch::manual_seed(1);
  std::vector<at::Tensor> inputs;
  for (const Value input : graph.inputs()) {
    const auto& meta = graph.meta(input);
    const auto tensor = at::empty_strided(meta.size_hints(), meta.stride_hints(), at::TensorOptions(meta.dtype));
    inputs.push_back(tensor.copy_(at::randn(meta.size_hints())));
  }
  return inputs;
}

/// Whether two graphs with the same inputs compute the same, bit for bit and draw for draw.
inline ::testing::AssertionResult run_alike(const Graph& left, const Graph& right) {
  const auto inputs = random_inputs(left);
  torch::manual_seed(2);
  const auto expected = run_graph(left, inputs);
  torch::manual_seed(2);
  return same_tensors(run_graph(right, inputs), expected, {.equal_nan = true});
}

/// Checks that `pass` turns the graph `before` into `after`, that the two compute the same, and that running the pass
/// again changes nothing.
template <class Pass>
void expect_pass(Pass pass, std::string_view before, std::string_view after,
                 const std::vector<at::Tensor>& constants = {}) {
  const Graph source = parse(before, constants);
  const Graph result = pass(source);
  EXPECT_EQ(result.code(), after);
  EXPECT_TRUE(run_alike(source, result));
  EXPECT_TRUE(identical(pass(result), result)) << pass(result).code();
}

}  // namespace diptych::testing
