// Compares a lowering with the eager kernel: one operator, its operands, and what both make of them.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "diptych/graph/print.h"
#include "diptych/xla/hlo/lowering.h"
#include "diptych/xla/xla_backend.h"
#include "interpreter/graph_builder.h"
#include "testing/rotation.h"

namespace diptych::testing {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// How far apart XLA's results and eager's may be, absolutely and relatively, without a look at the truth.
inline double xla_tolerance(at::ScalarType dtype) {
  if (at::isIntegralType(dtype, true)) return 0;
  if (dtype == at::kDouble || dtype == at::kComplexDouble) return 1e-12;
  return dtype == at::kHalf ? 2e-3 : dtype == at::kBFloat16 ? 2e-2 : 1e-5;
}

/// Builds a graph of one operator or several, and runs it by XLA.
class XlaCheck {
 public:
  Value input(const at::Tensor& tensor) {
    const Value value = builder_.input(tensor);
    inputs_.push_back(tensor);
    return value;
  }
  /// Adds a node and returns its first output; operands that are left out take the schema's defaults.
  Value node(const std::string& op, std::vector<Operand> operands) { return nodes(op, std::move(operands)).at(0); }
  std::vector<Value> nodes(const std::string& op, std::vector<Operand> operands) {
    return builder_.nodes(op, std::move(operands));
  }

  /// Expects that every node is lowered (or decomposes into such nodes), and that the program returns what eager
  /// returned: the same dtypes, sizes and strides, and values within rounding. Of a test's programs of the same
  /// operators a run takes the first and its part of the others.
  void expect_eager(const std::vector<Value>& outputs) {
    const Graph graph = builder_.finish(outputs);
    if (!takes_sample(operators_of(graph))) return;
    const detail::XlaBackend backend;
    for (const Node& node : graph.nodes()) {
      ASSERT_TRUE(backend.supports(graph, node)) << detail::node_line(graph, node);
    }
    auto inputs = inputs_;
    const auto results = backend.compile(graph)->run(std::move(inputs));
    ASSERT_EQ(results.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) expect_same(results[i], builder_.example(outputs[i]), graph);
  }

 private:
  static std::string operators_of(const Graph& graph) {
    std::string names;
    for (const Node& node : graph.nodes()) names += node.op.name() + ' ';
    return names;
  }
  static void expect_same(const at::Tensor& got, const at::Tensor& expected, const Graph& graph) {
    ASSERT_EQ(got.scalar_type(), expected.scalar_type()) << graph.code();
    ASSERT_EQ(got.sizes(), expected.sizes()) << graph.code();
    if (expected.is_non_overlapping_and_dense()) {
      EXPECT_EQ(got.numel() < 2 || got.strides() == expected.strides(), true) << graph.code();
    }
    const double tolerance = xla_tolerance(expected.scalar_type());
    EXPECT_TRUE(tolerance == 0 ? at::equal(got, expected) : at::allclose(got, expected, tolerance, tolerance, true))
        << graph.code() << got << "\nexpected\n"
        << expected;
  }

  test::GraphBuilder builder_;
  std::vector<at::Tensor> inputs_;
};

/// Expects that one operator on `tensors`, then `rest`, does what eager does. All outputs are compared.
inline void expect_lowered(const std::string& op, const std::vector<at::Tensor>& tensors,
                           std::vector<Operand> rest = {}) {
  SCOPED_TRACE(op);
  XlaCheck check;
  std::vector<Operand> operands;
  for (const auto& tensor : tensors) operands.emplace_back(tensor.defined() ? check.input(tensor) : Value{});
  operands.insert(operands.end(), rest.begin(), rest.end());
  auto outputs = check.nodes(op, std::move(operands));
  std::erase_if(outputs, [](Value output) { return !output; });
  check.expect_eager(outputs);
}

}  // namespace diptych::testing
