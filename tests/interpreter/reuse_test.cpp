// Running in place: bit-identical to out of place, and never over memory that someone else can see.
#include "diptych/interpreter/reuse.h"

#include "diptych/interpreter/program.h"
#include "interpreter/graph_builder.h"

namespace diptych {
namespace {

using test::GraphBuilder;
using test::same_bits;

// Runs the graph with and without reuse on `make_inputs()`, and returns how many nodes ran in place.
size_t expect_same_with_and_without_reuse(const Graph& graph,
                                          const std::function<std::vector<at::Tensor>()>& make_inputs) {
  const Program plain(graph, {.reuse_buffers = false}), reusing(graph);
  const auto expected = plain.run(make_inputs());
  Profile profile;
  const auto results = reusing.run(make_inputs(), {.differentiable = false, .profile = &profile});
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(same_bits(results[i], expected[i])) << "output " << i;
    EXPECT_EQ(results[i].strides(), expected[i].strides()) << "output " << i;
  }
  size_t in_place = 0;
  for (const auto& row : profile.rows()) in_place += row.call == "in place" ? 1 : 0;
  return in_place;
}

struct Case {
  const char* op;
  std::vector<Operand> rest;  // after the tensors
  int tensors = 1;
};

class PointwiseReuse : public ::testing::TestWithParam<int> {};

const std::vector<Case>& pointwise_cases() {
  static const auto* cases = new std::vector<Case>{
      {"aten.sin", {}},
      {"aten.exp", {}},
      {"aten.relu", {}},
      {"aten.neg", {}},
      {"aten.rsqrt", {}},
      {"aten.silu", {}},
      {"aten.sigmoid", {}},
      {"aten.gelu", {c10::IValue("tanh")}},
      {"aten.gelu", {c10::IValue("none")}},
      {"aten.elu", {}},
      {"aten.softplus", {}},
      {"aten.leaky_relu", {c10::IValue(0.1)}},
      {"aten.hardtanh", {}},
      {"aten.clamp", {c10::IValue(-0.5), c10::IValue(0.5)}},
      {"aten.clamp_min", {c10::IValue(0.1)}},
      {"aten.mul.Scalar", {c10::IValue(1.7)}},
      {"aten.add.Scalar", {c10::IValue(1.7), c10::IValue(0.3)}},
      {"aten.pow.Tensor_Scalar", {c10::IValue(3)}},
      {"aten.pow.Scalar", {}},  // filled in below: the scalar comes first
      {"aten.add.Tensor", {c10::IValue(0.7)}, 2},
      {"aten.sub.Tensor", {c10::IValue(0.7)}, 2},
      {"aten.mul.Tensor", {}, 2},
      {"aten.div.Tensor", {}, 2},
      {"aten.div.Tensor_mode", {c10::IValue("trunc")}, 2},
      {"aten.maximum", {}, 2},
      {"aten.atan2", {}, 2},
      {"aten.pow.Tensor_Tensor", {}, 2},
      {"aten.sigmoid_backward", {}, 2},
      {"aten.tanh_backward", {}, 2},
      {"aten.silu_backward", {}, 2},
      {"aten.gelu_backward", {c10::IValue("tanh")}, 2},
      {"aten.threshold_backward", {c10::IValue(0)}, 2},
      {"aten.leaky_relu_backward", {c10::IValue(0.1), c10::IValue(false)}, 2},
      {"aten.hardtanh_backward", {c10::IValue(-1), c10::IValue(1)}, 2},
      {"aten.softplus_backward", {c10::IValue(1), c10::IValue(20)}, 2},
      {"aten.addcmul", {c10::IValue(0.5)}, 3},
      {"aten.addcdiv", {c10::IValue(0.5)}, 3},
      {"aten.lerp.Tensor", {}, 3},
      {"aten.lerp.Scalar", {c10::IValue(0.3)}, 2},
      {"aten.nan_to_num", {c10::IValue(0.0), c10::IValue(1.0), c10::IValue(-1.0)}},
  };
  return *cases;
}

// Each operator, over each of its operands in turn being the only one that dies there, in two layouts and dtypes.
TEST_P(PointwiseReuse, IsBitIdenticalToOutOfPlace) {
  const Case& one = pointwise_cases()[static_cast<size_t>(GetParam())];
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const bool transposed : {false, true}) {
      for (int dying = 0; dying < one.tensors; ++dying) {
        const auto make = [&](int seed) {
          torch::manual_seed(seed);
          auto tensor = torch::randn({37, 13}, dtype);
          return transposed ? tensor.t() : tensor;
        };
        GraphBuilder builder;
        std::vector<Operand> operands;
        std::vector<Value> outputs;
        for (int i = 0; i < one.tensors; ++i) {
          // The caller holds the input, so this gives the operand memory that is nobody else's.
          const Value fresh = builder.node("aten.neg", {builder.input(make(i))});
          operands.emplace_back(fresh);
          if (i != dying) outputs.push_back(fresh);
        }
        if (std::string(one.op) == "aten.pow.Scalar") operands.insert(operands.begin(), c10::IValue(1.3));
        operands.insert(operands.end(), one.rest.begin(), one.rest.end());
        outputs.push_back(builder.node(one.op, operands));
        std::vector<at::Tensor> held;  // the caller keeps the inputs, so only the operator itself may run in place
        for (int i = 0; i < one.tensors; ++i) held.push_back(make(i));
        const auto in_place = expect_same_with_and_without_reuse(builder.finish(outputs), [&] { return held; });
        // Only an operand that some form of the operator writes to can be run over; the first always can, where eager
        // lays the result out as it (2 ** x.t() is laid out anew).
        const bool same_layout = builder.example(outputs.back()).strides() == make(0).strides();
        EXPECT_TRUE(same_layout || transposed) << one.op;
        if (dying == 0 && same_layout) {
          EXPECT_EQ(in_place, 1U) << one.op;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, PointwiseReuse, ::testing::Range(0, static_cast<int>(pointwise_cases().size())));

TEST(Reuse, NeverOverwritesInputsThatTheCallerHolds) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({8}));
  const Program program(builder.finish({builder.node("aten.sin", {builder.node("aten.cos", {x})})}));
  const auto held = torch::randn({8});
  const auto before = held.clone();
  program.run({held});
  EXPECT_TRUE(same_bits(held, before));
  // A view keeps the memory although the tensor itself is given away.
  auto given = torch::randn({8});
  const auto view = given.view({2, 4});
  const auto view_before = view.clone();
  std::vector<at::Tensor> inputs;
  inputs.push_back(std::move(given));
  program.run(std::move(inputs));
  EXPECT_TRUE(same_bits(view, view_before));
}

TEST(Reuse, NeverOverwritesMemoryLentByFromBlob) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Program program(builder.finish({builder.node("aten.sin", {x})}));
  float buffer[4] = {1, 2, 3, 4};
  program.run({torch::from_blob(buffer, {4})});
  EXPECT_EQ(buffer[0], 1);
  EXPECT_EQ(buffer[3], 4);
}

TEST(Reuse, NeverOverwritesConstants) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Value constant = builder.constant(torch::ones({4}));
  const Value sum = builder.node("aten.add.Tensor", {constant, constant});
  const Program program(builder.finish({builder.node("aten.mul.Tensor", {sum, x})}));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(program.run({torch::ones({4})})[0], torch::full({4}, 2.0F)));
}

TEST(Reuse, NeverOverwritesGraphOutputs) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({8}));
  const Value y = builder.node("aten.sin", {x});
  const Value z = builder.node("aten.exp", {y});
  const Graph graph = builder.finish({y, z});
  const auto held = torch::randn({8});
  EXPECT_EQ(expect_same_with_and_without_reuse(graph, [&] { return std::vector<at::Tensor>{held}; }), 0U);
}

TEST(Reuse, WaitsWhileAViewOfADeadOperandLives) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({6}));
  const Value y = builder.node("aten.sin", {x});
  const Value view = builder.node("aten.view", {y, c10::IValue(std::vector<int64_t>{2, 3})});
  const Value z = builder.node("aten.exp", {y});                  // y dies here, its memory does not
  const Value w = builder.node("aten.mul.Tensor", {view, view});  // the view's last use: its memory is free now
  const auto held = torch::randn({6});
  const auto in_place =
      expect_same_with_and_without_reuse(builder.finish({z, w}), [&] { return std::vector<at::Tensor>{held}; });
  EXPECT_EQ(in_place, 1U);
}

TEST(Reuse, LeavesExpandedAndPartialViewsAlone) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({1, 4}));
  const Value y = builder.node("aten.sin", {x});
  const Value expanded = builder.node("aten.expand", {y, c10::IValue(std::vector<int64_t>{3, 4})});
  const Value z = builder.node("aten.exp", {expanded});
  const Value half = builder.node("aten.slice.Tensor", {z, c10::IValue(0), c10::IValue(0), c10::IValue(1)});
  const Value w = builder.node("aten.cos", {half});
  const auto held = torch::randn({1, 4});
  EXPECT_EQ(expect_same_with_and_without_reuse(builder.finish({w}), [&] { return std::vector<at::Tensor>{held}; }), 0U);
}

TEST(Reuse, KeepsBroadcastOperandsApart) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4, 4}));
  const Value y = builder.node("aten.sin", {x});
  const Value row = builder.node("aten.select.int", {y, c10::IValue(0), c10::IValue(1)});
  // `y` dies here, while its own row is the other operand: y[1] must not change before it is added to y[2].
  const Value z = builder.node("aten.add.Tensor", {y, row});
  const auto held = torch::randn({4, 4});
  EXPECT_EQ(expect_same_with_and_without_reuse(builder.finish({z}), [&] { return std::vector<at::Tensor>{held}; }), 0U);
}

TEST(Reuse, TakesTheSameOperandTwice) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({5}));
  const Value y = builder.node("aten.sin", {x});
  const Value z = builder.node("aten.sub.Tensor", {y, y});
  const Value w = builder.node("aten.exp", {z});
  const auto held = torch::randn({5});
  EXPECT_EQ(expect_same_with_and_without_reuse(builder.finish({w}), [&] { return std::vector<at::Tensor>{held}; }), 2U);
}

TEST(Reuse, TakesTheSecondOperandWhereTheFirstLives) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({5}));
  const Value y = builder.node("aten.sin", {x});
  const Value z = builder.node("aten.sub.Tensor", {x, y, c10::IValue(2)});
  const auto held = torch::randn({5});
  EXPECT_EQ(expect_same_with_and_without_reuse(builder.finish({x, z}), [&] { return std::vector<at::Tensor>{held}; }),
            1U);
}

TEST(Reuse, SkipsResultsOfAnotherType) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randint(0, 9, {5}));
  const Value y = builder.node("aten.neg", {x});
  const Value z = builder.node("aten.div.Tensor", {y, y});              // integers divide to floats
  const Value w = builder.node("aten.gt.Scalar", {z, c10::IValue(0)});  // floats compare to bools
  const auto held = torch::randint(1, 9, {5});
  EXPECT_EQ(expect_same_with_and_without_reuse(builder.finish({w}), [&] { return std::vector<at::Tensor>{held}; }), 0U);
}

TEST(Reuse, SkipsInputsThatShareMemoryOrAreOneTensor) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({4}));
  const Value y = builder.input(torch::randn({4}));
  const Value a = builder.node("aten.sin", {x});
  const Value b = builder.node("aten.cos", {y});
  const Graph graph = builder.finish({a, b});
  const auto same = [] {
    torch::manual_seed(1);
    const auto tensor = torch::randn({4});
    return std::vector<at::Tensor>{tensor, tensor};
  };
  const auto overlapping = [] {
    torch::manual_seed(1);
    const auto tensor = torch::randn({8});
    return std::vector<at::Tensor>{tensor.slice(0, 0, 4), tensor.slice(0, 2, 6)};
  };
  expect_same_with_and_without_reuse(graph, same);
  expect_same_with_and_without_reuse(graph, overlapping);
}

TEST(Reuse, IsOffInDifferentiableMode) {
  GraphBuilder builder;
  const Value x = builder.input(torch::randn({5}));
  const Value y = builder.node("aten.exp", {x});
  const Value z = builder.node("aten.exp", {y});  // exp saves its result, which in place would be lost
  const Program program(builder.finish({z}));
  auto input = torch::randn({5}).requires_grad_();
  auto copy = input.detach().clone().requires_grad_();
  program.run({input}, {.differentiable = true})[0].sum().backward();
  copy.exp().exp().sum().backward();
  EXPECT_TRUE(same_bits(input.grad(), copy.grad()));
}

}  // namespace
}  // namespace diptych
