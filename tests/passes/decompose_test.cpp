// Every decomposition against the kernel that it stands for, in float64 over several shapes, and in the half types.
#include "diptych/passes/decompose.h"

#include <torch/types.h>

#include <set>

#include "diptych/graph/verify.h"
#include "diptych/ops/decompositions.h"
#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

using testing::GraphWriter;
using testing::ints;

/// One call of an operator: tensors become inputs of the graph, everything else constants.
struct Sample {
  const char* op;
  std::vector<std::variant<at::Tensor, c10::IValue>> operands;
};

c10::IValue bools(std::vector<bool> values) {
  c10::List<bool> list;
  for (const bool value : values) list.push_back(value);
  return list;
}

Graph graph_of(const Sample& sample, GraphWriter& writer) {
  std::vector<Operand> operands;
  for (const auto& operand : sample.operands) {
    if (const auto* tensor = std::get_if<at::Tensor>(&operand)) {
      operands.emplace_back(tensor->defined() ? writer.input(*tensor) : Value{});
    } else {
      operands.emplace_back(std::get<c10::IValue>(operand));
    }
  }
  std::vector<Value> outputs;
  for (const Value output : writer.call_all(sample.op, operands)) {
    if (output) outputs.push_back(output);
  }
  return writer.finish(outputs);
}

bool holds(const Graph& graph, std::string_view op) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [&](const Node& node) { return node.op.name() == op; });
}

// Whether each pair of tensors of a list shares memory.
std::vector<bool> sharing(const std::vector<at::Tensor>& tensors) {
  std::vector<bool> shares;
  for (size_t i = 0; i < tensors.size(); ++i) {
    for (size_t j = 0; j < i; ++j) shares.push_back(tensors[i].is_alias_of(tensors[j]));
  }
  return shares;
}

std::vector<bool> sharing(std::vector<at::Tensor> inputs, const std::vector<at::Tensor>& results) {
  inputs.insert(inputs.end(), results.begin(), results.end());
  return sharing(inputs);
}

// Runs both graphs from one seed, and compares values and metadata with what the kernel gave.
void expect_same(const Sample& sample, double tolerance, bool must_decompose = true) {
  GraphWriter writer;
  const Graph graph = graph_of(sample, writer);
  const Graph result = decompose(graph);
  SCOPED_TRACE(graph.code() + result.code());
  ASSERT_EQ(find_problem(result) ? find_problem(result)->what : "", "");
  EXPECT_TRUE(!must_decompose || !holds(result, sample.op));
  torch::manual_seed(3);
  const auto expected = testing::run_graph(graph, writer.inputs());
  torch::manual_seed(3);
  const auto got = testing::run_graph(result, writer.inputs());
  EXPECT_TRUE(testing::same_tensors(got, expected, {.rtol = tolerance, .atol = tolerance, .equal_nan = true}));
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    EXPECT_EQ(result.meta(result.outputs()[i]), graph.meta(graph.outputs()[i]));
    EXPECT_EQ(got[i].strides(), expected[i].strides()) << i;
  }
  EXPECT_EQ(sharing(writer.inputs(), got), sharing(writer.inputs(), expected));
  EXPECT_TRUE(identical(decompose(result), result));
}

std::vector<at::Tensor> tensors(at::ScalarType dtype) {
  torch::manual_seed(0);
  return {torch::randn({3, 4}, dtype) * 3, torch::randn({}, dtype), torch::randn({0, 4}, dtype),
          torch::randn({2, 3, 5}, dtype).transpose(0, 2), torch::randn({1, 1}, dtype) * 50};
}

const char* const kUnary[] = {
    "aten.silu",       "aten.gelu", "aten.hardtanh", "aten.hardsigmoid", "aten.hardswish",
    "aten.leaky_relu", "aten.elu",  "aten.softplus", "aten.mish",        "aten.log_sigmoid_forward"};

TEST(Decompose, ActivationsAgreeWithTheirKernels) {
  for (const char* op : kUnary) {
    for (const auto& x : tensors(at::kDouble)) {
      if (std::string_view(op) == "aten.log_sigmoid_forward" && x.dim() > 2) continue;  // its buffer has own strides
      expect_same({op, {x}}, 1e-11);
    }
    expect_same({op, {tensors(at::kFloat)[0]}}, 1e-5);
  }
  for (const auto& x : tensors(at::kDouble)) {
    expect_same({"aten.gelu", {x, c10::IValue("tanh")}}, 1e-11);
    expect_same({"aten.elu", {x, c10::IValue(0.7), c10::IValue(1.3), c10::IValue(0.9)}}, 1e-11);
    expect_same({"aten.softplus", {x, c10::IValue(2.0), c10::IValue(1.5)}}, 1e-11);
    expect_same({"aten.hardtanh", {x, c10::IValue(-0.5), c10::IValue(0.25)}}, 0);
    expect_same({"aten.leaky_relu", {x, c10::IValue(-0.5)}}, 1e-12);
  }
}

TEST(Decompose, HalfTypesAreComputedInFloat) {
  for (const char* op : {"aten.silu", "aten.gelu", "aten.elu", "aten.softplus", "aten.mish"}) {
    expect_same({op, {tensors(at::kBFloat16)[0]}}, 1e-2);
  }
  expect_same({"aten._softmax", {tensors(at::kBFloat16)[0], c10::IValue(1), c10::IValue(false)}}, 1e-2);
}

TEST(Decompose, GradientsOfActivationsAgreeWithTheirKernels) {
  for (const auto& x : tensors(at::kDouble)) {
    const auto g = torch::randn_like(x);
    for (const char* op : {"aten.tanh_backward", "aten.sigmoid_backward", "aten.silu_backward", "aten.gelu_backward",
                           "aten.hardswish_backward", "aten.mish_backward"}) {
      expect_same({op, {g, x}}, 1e-11);
    }
    expect_same({"aten.hardsigmoid_backward", {g, x}}, 1e-7);  // the kernel holds a sixth as a float
    expect_same({"aten.gelu_backward", {g, x, c10::IValue("tanh")}}, 1e-11);
    expect_same({"aten.threshold_backward", {g, x, c10::IValue(0.5)}}, 0);
    expect_same({"aten.hardtanh_backward", {g, x, c10::IValue(-0.5), c10::IValue(0.5)}}, 0);
    expect_same({"aten.leaky_relu_backward", {g, x, c10::IValue(0.1), c10::IValue(false)}}, 1e-12);
    expect_same({"aten.softplus_backward", {g, x, c10::IValue(2.0), c10::IValue(1.5)}}, 1e-11);
    const auto elu = [&](bool is_result) -> Sample {
      return {"aten.elu_backward",
              {g, c10::IValue(0.7), c10::IValue(1.3), c10::IValue(0.9), c10::IValue(is_result), x}};
    };
    expect_same(elu(false), 1e-11);
    expect_same(elu(true), 1e-11);
    const auto buffer = (-x.abs()).exp();
    expect_same({"aten.log_sigmoid_backward", {g, x, buffer}}, 1e-11);
  }
}

TEST(Decompose, PointwiseCombinationsAgree) {
  for (const auto& x : tensors(at::kDouble)) {
    const auto y = torch::randn_like(x);
    const auto z = torch::rand_like(x) + 0.5;
    expect_same({"aten.addcmul", {x, y, z, c10::IValue(0.3)}}, 1e-12);
    expect_same({"aten.addcdiv", {x, y, z, c10::IValue(0.3)}}, 1e-12);
    expect_same({"aten.lerp.Scalar", {x, y, c10::IValue(0.3)}}, 1e-12);
    expect_same({"aten.lerp.Scalar", {x, y, c10::IValue(0.8)}}, 1e-12);
    expect_same({"aten.rsub.Scalar", {x, c10::IValue(2.5), c10::IValue(3)}}, 1e-12);
  }
  const auto broadcast = torch::randn({4}, at::kDouble);
  expect_same({"aten.addcmul", {torch::randn({3, 1}, at::kDouble), broadcast, broadcast}}, 1e-12);
}

TEST(Decompose, DropoutDrawsAsItsKernelDoes) {
  for (const auto& x : tensors(at::kDouble)) {
    for (const double p : {0.0, 0.3, 1.0}) {
      expect_same({"aten.native_dropout", {x.contiguous(), c10::IValue(p), c10::IValue(true)}}, 1e-12,
                  /*must_decompose=*/x.numel() > 0);
    }
    expect_same({"aten.native_dropout_backward", {x, x > 0, c10::IValue(2.0)}}, 1e-12);
  }
}

TEST(Decompose, SumsOfProductsAgree) {
  const auto normal = [](std::vector<int64_t> sizes) { return torch::randn(sizes, at::kDouble); };
  for (const int64_t m : {0, 1, 3}) {
    for (const int64_t k : {0, 1, 4}) {
      expect_same({"aten.addmm", {normal({5}), normal({m, k}), normal({k, 5})}}, 1e-12);
      expect_same({"aten.addmm", {normal({m, 5}), normal({m, k}), normal({k, 5}), c10::IValue(0.5), c10::IValue(2)}},
                  1e-12);
      expect_same({"aten.baddbmm", {normal({1, 5}), normal({2, m, k}), normal({2, k, 5}), c10::IValue(0.5)}}, 1e-12);
      expect_same({"aten.addmv", {normal({m}), normal({m, k}), normal({k})}}, 1e-12);
    }
  }
  const auto nan = torch::full({3, 5}, std::nan(""), at::kDouble);
  expect_same({"aten.addmm", {nan, normal({3, 4}), normal({4, 5}), c10::IValue(0)}}, 1e-12);
  expect_same({"aten.addbmm", {normal({3, 5}), normal({2, 3, 4}), normal({2, 4, 5})}}, 1e-12);
  expect_same({"aten.linear", {normal({3, 4}), normal({5, 4}), normal({5})}}, 1e-12);
  expect_same({"aten.linear", {normal({2, 3, 4}).transpose(0, 1), normal({5, 4}), at::Tensor()}}, 1e-12);
  const auto numbers = torch::randint(5, {3, 3}, at::kLong);
  expect_same({"aten.addmm", {numbers, numbers, numbers, c10::IValue(2), c10::IValue(3)}}, 0);
}

TEST(Decompose, SoftmaxAgrees) {
  for (const auto& x : tensors(at::kDouble)) {
    const int64_t dim = x.dim() == 0 ? 0 : x.dim() - 1;
    for (const char* op : {"aten._softmax", "aten._log_softmax"}) {
      expect_same({op, {x, c10::IValue(0), c10::IValue(false)}}, 1e-12);
      expect_same({op, {x, c10::IValue(dim), c10::IValue(false)}}, 1e-12);
    }
    const auto g = torch::randn_like(x);
    const auto dtype = c10::IValue(at::kDouble);
    expect_same({"aten._softmax_backward_data", {g, at::softmax(x, dim), c10::IValue(dim), dtype}}, 1e-12);
    expect_same({"aten._log_softmax_backward_data", {g, at::log_softmax(x, dim), c10::IValue(dim), dtype}}, 1e-12);
  }
  const auto masked = torch::full({2, 3}, -std::numeric_limits<double>::infinity(), at::kDouble);
  expect_same({"aten._softmax", {masked, c10::IValue(1), c10::IValue(false)}}, 1e-12);
}

TEST(Decompose, LossesAgree) {
  for (const auto& x : tensors(at::kDouble)) {
    const auto y = torch::randn_like(x);
    for (const int64_t reduction : {0, 1, 2}) {
      const auto g = reduction == 0 ? torch::randn_like(x) : torch::randn({}, at::kDouble);
      const c10::IValue mode(reduction);
      expect_same({"aten.mse_loss", {x, y, mode}}, 1e-11);
      expect_same({"aten.mse_loss_backward", {g, x, y, mode}}, 1e-11);
      for (const double beta : {0.0, 0.5}) {
        expect_same({"aten.smooth_l1_loss", {x, y, mode, c10::IValue(beta)}}, 1e-11);
        expect_same({"aten.smooth_l1_loss_backward", {g, x, y, mode, c10::IValue(beta)}}, 1e-11);
      }
      expect_same({"aten.huber_loss", {x, y, mode, c10::IValue(0.5)}}, 1e-11);
      expect_same({"aten.huber_loss_backward", {g, x, y, mode, c10::IValue(0.5)}}, 1e-11);
      const auto p = x.sigmoid();
      const auto t = y.sigmoid();
      expect_same({"aten.binary_cross_entropy", {p, t, at::Tensor(), mode}}, 1e-11);
      expect_same({"aten.binary_cross_entropy", {p, t, y.abs(), mode}}, 1e-11);
      expect_same({"aten.binary_cross_entropy_backward", {g, p, t, y.abs(), mode}}, 1e-11);
    }
  }
}

TEST(Decompose, NegativeLogLikelihoodAgreesWithWeightsAndIgnoredRows) {
  for (const int64_t rows : {0, 1, 5}) {
    for (const int64_t reduction : {0, 1, 2}) {
      for (const auto& weight : {at::Tensor(), torch::rand({3}, at::kDouble)}) {
        const auto x = torch::randn({rows, 3}, at::kDouble);
        auto target = torch::randint(3, {rows}, at::kLong);
        if (rows == 5) target[2] = -100;
        const c10::IValue mode(reduction);
        const c10::IValue ignored(-100);
        expect_same({"aten.nll_loss_forward", {x, target, weight, mode, ignored}}, 1e-12);
        const auto total = std::get<1>(at::nll_loss_forward(x, target, weight, reduction, -100));
        const auto g = reduction == 0 ? torch::randn({rows}, at::kDouble) : torch::randn({}, at::kDouble);
        if (rows == 0) continue;  // a mean over nothing divides by zero in the kernel's own way
        expect_same({"aten.nll_loss_backward", {g, x, target, weight, mode, ignored, total}}, 1e-12);
      }
    }
  }
}

TEST(Decompose, LayerNormAgrees) {
  const auto weight = torch::randn({4}, at::kDouble);
  const auto bias = torch::randn({4}, at::kDouble);
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{3, 4}, {4}, {2, 3, 4}}) {
    const auto x = torch::randn(sizes, at::kDouble);
    const auto g = torch::randn(sizes, at::kDouble);
    const c10::IValue shape(std::vector<int64_t>{4});
    expect_same({"aten.native_layer_norm", {x, shape, weight, bias, c10::IValue(1e-5)}}, 1e-11);
    expect_same({"aten.native_layer_norm", {x, shape, at::Tensor(), at::Tensor(), c10::IValue(1e-5)}}, 1e-11);
    const auto [y, mean, rstd] = at::native_layer_norm(x, {4}, weight, bias, 1e-5);
    for (const auto& mask : {bools({true, true, true}), bools({true, false, false}), bools({false, true, true})}) {
      expect_same({"aten.native_layer_norm_backward", {g, x, shape, mean, rstd, weight, bias, mask}}, 1e-11);
    }
  }
  const auto empty = torch::randn({0, 4}, at::kDouble);
  expect_same(
      {"aten.native_layer_norm", {empty, c10::IValue(std::vector<int64_t>{4}), weight, bias, c10::IValue(1e-5)}}, 0,
      /*must_decompose=*/false);
}

TEST(Decompose, BatchNormAgreesInTrainingAndOutsideIt) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{6, 3}, {2, 3, 4}, {2, 3, 4, 5}}) {
    const auto x = torch::randn(sizes, at::kDouble);
    const auto g = torch::randn(sizes, at::kDouble);
    const auto weight = torch::randn({3}, at::kDouble);
    const auto bias = torch::randn({3}, at::kDouble);
    const auto mean = torch::randn({3}, at::kDouble);
    const auto variance = torch::rand({3}, at::kDouble) + 0.5;
    const c10::IValue momentum(0.1);
    const c10::IValue epsilon(1e-5);
    expect_same({"aten._native_batch_norm_legit_functional",
                 {x, weight, bias, mean, variance, c10::IValue(true), momentum, epsilon}},
                1e-11);
    expect_same({"aten._native_batch_norm_legit_no_training", {x, weight, bias, mean, variance, momentum, epsilon}},
                1e-11);
    expect_same({"aten.native_batch_norm", {x, weight, bias, mean, variance, c10::IValue(false), momentum, epsilon}},
                1e-11);
    const auto saved_mean = torch::randn({3}, at::kDouble);
    const auto saved_invstd = torch::rand({3}, at::kDouble) + 0.5;
    for (const bool training : {true, false}) {
      for (const auto& mask : {bools({true, true, true}), bools({true, false, false}), bools({false, true, true})}) {
        expect_same({"aten.native_batch_norm_backward",
                     {g, x, weight, mean, variance, saved_mean, saved_invstd, c10::IValue(training), epsilon, mask}},
                    1e-10);
      }
    }
  }
}

// What is saved of a node is its results; inside, only they are.
TEST(Decompose, MarksAndNamesGoToTheResults) {
  const auto pass = [](const Graph& graph) { return decompose(graph); };
  testing::expect_pass(pass, R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.silu(%0)  # block · region a/b recompute/save · named h
  %2 : f32[2] = aten.silu(%1)  # region a recompute
  return (%2 y)
)",
                       R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.sigmoid(%0)  # block · region a/b recompute/recompute · by decompose
  %2 : f32[2] = aten.mul.Tensor(%0, %1)  # block · region a/b recompute/save · named h · by decompose
  %3 : f32[2] = aten.sigmoid(%2)  # region a recompute · by decompose
  %4 : f32[2] = aten.mul.Tensor(%2, %3)  # region a recompute · by decompose
  return (%4 y)
)");
}

TEST(Decompose, EveryRowNamesAnOperatorOnce) {
  std::set<std::string_view> names;
  for (const auto& row : all_decompositions()) {
    EXPECT_EQ(Op::find(row.op).name(), row.op);
    EXPECT_TRUE(names.insert(row.op).second) << row.op;
    EXPECT_EQ(find_decomposition(Op::find(row.op)), &row);
  }
  EXPECT_EQ(find_decomposition(Op::find("aten.add.Tensor")), nullptr);
}

TEST(Decompose, KeepsWhatABackendTakes) {
  const auto graph = parse(R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.silu(%0)  # block0
  %2 : f32[2] = aten.gelu(%1)
  return (%2 y)
)");
  const auto keeps = [](const Graph&, const Node& node) { return node.op.name() == "aten.gelu"; };
  EXPECT_EQ(decompose(graph, keeps).code(), R"(graph f(%0 x : f32[2])
  %1 : f32[2] = aten.sigmoid(%0)  # block0 · by decompose
  %2 : f32[2] = aten.mul.Tensor(%0, %1)  # block0 · by decompose
  %3 : f32[2] = aten.gelu(%2)
  return (%3 y)
)");
}

}  // namespace
}  // namespace diptych
