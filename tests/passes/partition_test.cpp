// Every partitioner's two graphs must compute what the joint graph computes, and save no more than promised.
#include "diptych/passes/partition.h"

#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <chrono>

#include "diptych/base/error.h"
#include "diptych/graph/parse.h"
#include "diptych/passes/joint_analysis.h"
#include "passes/torch_joints.h"
#include "testing/expect_error.h"
#include "testing/random_joint.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_error;
using testing::GraphWriter;
using testing::ints;
using testing::JointCase;
using testing::RandomJoint;
using testing::same_tensors;

JointCase random_joint(uint64_t seed) {
  return RandomJoint(seed, /*size=*/6, /*length=*/4 + static_cast<int>(seed % 30)).make();
}

std::vector<Partitioner> all_partitioners() {
  return {default_partition(), min_cut(),          hidden_min_cut(),   memory_budget(0),
          memory_budget(0.25), memory_budget(0.5), memory_budget(0.8), memory_budget(1.0)};
}

size_t count(const Graph& graph, std::string_view name) {
  size_t found = 0;
  for (const auto& node : graph.nodes()) found += node.op.name() == name ? 1 : 0;
  return found;
}

TEST(Partition, SplitPairsComputeWhatTheJointGraphComputes) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const auto sample = random_joint(seed);
    const auto expected = sample.run();
    for (const auto& partitioner : all_partitioners()) {
      const auto split = split_joint(sample.joint, partitioner);
      ASSERT_TRUE(same_tensors(sample.run(split), expected, {.equal_nan = true}))
          << partitioner.name << " of program " << seed;
    }
  }
}

TEST(Partition, MinCutNeverSavesMoreThanDefault) {
  bool saves_less_somewhere = false;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto sample = random_joint(seed);
    const auto least = residual_bytes(split_joint(sample.joint, min_cut()));
    const auto eager = residual_bytes(split_joint(sample.joint, default_partition()));
    ASSERT_LE(least, eager) << "program " << seed;
    saves_less_somewhere = saves_less_somewhere || least < eager;
  }
  EXPECT_TRUE(saves_less_somewhere);
}

// The inputs and the outputs, by storage, that a split saves.
std::vector<Value> saved_of_users(const JointAnalysis& analysis, const Split& split) {
  std::vector<Value> found;
  for (const Value value : split.saved) {
    const Value root = analysis.root(value);
    if (analysis.is_primal(root) || analysis.is_returned(root)) found.push_back(root);
  }
  return sorted_unique(std::move(found));
}

TEST(Partition, HiddenMinCutSavesInputsAndOutputsOnlyWhereEagerDoes) {
  bool min_cut_saves_others = false, saves_less_somewhere = false;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto sample = random_joint(seed);
    const JointAnalysis analysis(sample.joint);
    const auto hidden = split_joint(sample.joint, hidden_min_cut());
    const auto eager = split_joint(sample.joint, default_partition());
    const auto of_eager = saved_of_users(analysis, eager);
    const auto is_of_eager = [&](const std::vector<Value>& values) {
      return std::includes(of_eager.begin(), of_eager.end(), values.begin(), values.end());
    };
    ASSERT_TRUE(is_of_eager(saved_of_users(analysis, hidden))) << "program " << seed;
    ASSERT_LE(residual_bytes(hidden), residual_bytes(eager)) << "program " << seed;
    const auto least = split_joint(sample.joint, min_cut());
    min_cut_saves_others = min_cut_saves_others || !is_of_eager(saved_of_users(analysis, least));
    saves_less_somewhere = saves_less_somewhere || residual_bytes(hidden) < residual_bytes(eager);
  }
  EXPECT_TRUE(min_cut_saves_others);
  EXPECT_TRUE(saves_less_somewhere);
}

TEST(Partition, MemoryBudgetIsMonotoneInItsFraction) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto sample = random_joint(seed);
    int64_t previous = -1;
    for (const double fraction : {0.0, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0}) {
      const auto bytes = residual_bytes(split_joint(sample.joint, memory_budget(fraction)));
      ASSERT_GE(bytes, previous) << "program " << seed << " at " << fraction;
      previous = bytes;
    }
    ASSERT_EQ(previous, residual_bytes(split_joint(sample.joint, default_partition())));
  }
}

TEST(Partition, MemoryBudgetZeroSavesNoMoreThanMinCut) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto sample = random_joint(seed);
    ASSERT_LE(residual_bytes(split_joint(sample.joint, memory_budget(0))),
              residual_bytes(split_joint(sample.joint, min_cut())))
        << "program " << seed;
  }
}

TEST(Partition, IsTheSameEveryTime) {
  for (const auto& partitioner : all_partitioners()) {
    EXPECT_EQ(split_joint(random_joint(7).joint, partitioner).saved,
              split_joint(random_joint(7).joint, partitioner).saved);
  }
}

TEST(Partition, SavesNoMoreThanPyTorchOnItsOwnGraphs) {
  for (const auto& theirs : testing::kTorchJoints) {
    const Joint joint{parse(theirs.text), {theirs.primals, 0, theirs.tangents, theirs.outputs, 0}};
    EXPECT_EQ(residual_bytes(split_joint(joint, default_partition())), theirs.default_bytes) << theirs.name;
    EXPECT_LT(residual_bytes(split_joint(joint, min_cut())), theirs.min_cut_bytes) << theirs.name;
  }
}

TEST(Partition, RandomNodesAreDrawnOnceInTheForward) {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::randn({8, 8}));
  const auto kept = writer.call_all("aten.native_dropout", {x, c10::IValue(0.5), c10::IValue(true)});
  writer.call("aten.bernoulli.p", {x, c10::IValue(0.5), c10::IValue()});  // unused, yet it moves the generator
  writer.phase = Phase::kBackward;
  const Value tangent = writer.input(torch::randn({8, 8}), "t", SlotKind::kTangent);
  const Value gradient = writer.call("aten.native_dropout_backward", {tangent, kept[1], c10::IValue(2.0)});
  const Joint joint{writer.finish({kept[0], gradient}), {1, 0, 1, 1, 0}};
  for (const auto& partitioner : all_partitioners()) {
    const auto split = split_joint(joint, partitioner);
    EXPECT_EQ(count(split.forward, "aten.native_dropout"), 1U) << partitioner.name;
    EXPECT_EQ(count(split.forward, "aten.bernoulli.p"), 1U) << partitioner.name;
    EXPECT_EQ(count(split.backward, "aten.native_dropout"), 0U) << partitioner.name;
  }
}

// x -> mm -> gelu -> mm: eager saves both sides of gelu, min-cut one of them.
Joint two_layers(int64_t rows, int64_t width, GraphWriter& writer) {
  const Value x = writer.input(torch::randn({rows, width}), "x");
  const Value w = writer.input(torch::randn({width, width}).requires_grad_(), "w");
  const Value v = writer.input(torch::randn({width, width}).requires_grad_(), "v");
  const Value before = writer.call("aten.mm", {x, w});
  const Value after = writer.call("aten.gelu", {before});
  const Value y = writer.call("aten.mm", {after, v});
  writer.phase = Phase::kBackward;
  const Value g = writer.input(torch::randn({rows, width}), "tangent", SlotKind::kTangent);
  const Value gv = writer.call("aten.mm", {writer.call("aten.t", {after}), g});
  const Value ga = writer.call("aten.mm", {g, writer.call("aten.t", {v})});
  const Value gb = writer.call("aten.gelu_backward", {ga, before});
  const Value gw = writer.call("aten.mm", {writer.call("aten.t", {x}), gb});
  return {writer.finish({y, Value{}, gw, gv}), {3, 0, 1, 1, 0}};
}

TEST(Partition, MinCutRecomputesAnActivationAndNeverAProduct) {
  GraphWriter writer("joint");
  const Joint joint = two_layers(64, 16, writer);
  const auto eager = split_joint(joint, default_partition());
  const auto least = split_joint(joint, min_cut());
  EXPECT_EQ(residual_bytes(eager), 2 * 64 * 16 * 4);
  EXPECT_EQ(residual_bytes(least), 64 * 16 * 4);
  EXPECT_EQ(count(least.backward, "aten.gelu"), 1U);
  EXPECT_EQ(count(least.backward, "aten.mm"), 3U);
  EXPECT_EQ(residual_bytes(split_joint(joint, memory_budget(0))), 0);
  EXPECT_EQ(count(split_joint(joint, memory_budget(0)).backward, "aten.mm"), 4U);
}

TEST(Partition, RecomputedNodesStandJustBeforeTheirFirstUse) {
  GraphWriter writer("joint");
  const auto split = split_joint(two_layers(64, 16, writer), memory_budget(0));
  std::string order;
  for (const auto& node : split.backward.nodes()) {
    order += node.op.name() + (node.provenance.origin.empty() ? " " : "* ");
  }
  EXPECT_EQ(order, "aten.mm* aten.gelu* aten.t aten.mm aten.t aten.mm aten.gelu_backward aten.t aten.mm ");
}

// The mask that autograd makes in the backward pass is a quarter of the input that it is made from.
TEST(Partition, MinCutSavesAMaskInPlaceOfWhatItIsMadeFrom) {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::randn({64, 64}), "x");
  const Value w = writer.input(torch::randn({64, 64}).requires_grad_(), "w");
  const Value h = writer.call("aten.mm", {x, w});
  const Value y = writer.call("aten.clamp_min", {h, c10::IValue(0.0)});
  writer.phase = Phase::kBackward;
  const Value g = writer.input(torch::randn({64, 64}), "tangent", SlotKind::kTangent);
  const Value mask = writer.call("aten.ge.Scalar", {h, c10::IValue(0.0)});
  const Value gh = writer.call("aten.mul.Tensor", {g, mask});
  const Value gw = writer.call("aten.mm", {writer.call("aten.t", {x}), gh});
  const Joint joint{writer.finish({y, Value{}, gw}), {2, 0, 1, 1, 0}};
  EXPECT_EQ(residual_bytes(split_joint(joint, default_partition())), 64 * 64 * 4);
  EXPECT_EQ(residual_bytes(split_joint(joint, min_cut())), 64 * 64);
}

TEST(Partition, AViewIsNotSavedBesideItsBase) {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::randn({8, 8}).requires_grad_(), "x");
  const Value h = writer.call("aten._softmax", {x, c10::IValue(1), c10::IValue(false)});
  const Value flat = writer.call("aten.view", {h, ints({64})});
  const Value y = writer.call("aten.mul.Tensor", {flat, flat});
  writer.phase = Phase::kBackward;
  const Value g = writer.input(torch::randn({64}), "tangent", SlotKind::kTangent);
  const Value gf = writer.call("aten.mul.Tensor", {g, flat});
  const Value gh = writer.call("aten.view", {gf, ints({8, 8})});
  const Value gx = writer.call("aten._softmax_backward_data", {gh, h, c10::IValue(1), c10::IValue(at::kFloat)});
  const Joint joint{writer.finish({y, gx}), {1, 0, 1, 1, 0}};
  EXPECT_EQ(residual_bytes(split_joint(joint, default_partition())), 8 * 8 * 4);
  const auto least = split_joint(joint, min_cut());
  EXPECT_EQ(least.saved, std::vector<Value>{h});
  EXPECT_EQ(residual_bytes(least), 8 * 8 * 4);
}

// The user may write to an output after the forward; eager's gradient does not mind unless it saved that output.
TEST(Partition, MinCutLeavesOutputsAloneThatEagerDoesNotSave) {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::randn({8, 8}), "x");
  const Value w = writer.input(torch::randn({8, 8}).requires_grad_(), "w");
  const Value out = writer.call("aten.mm", {x, w});
  const Value act = writer.call("aten.sigmoid", {out});
  writer.phase = Phase::kBackward;
  const Value g = writer.input(torch::randn({8, 8}), "tangent", SlotKind::kTangent);
  const Value ga = writer.call("aten.sigmoid_backward", {g, act});
  const Value gw = writer.call("aten.mm", {writer.call("aten.t", {x}), ga});
  const Joint joint{writer.finish({out, writer.call("aten.sum", {act}), Value{}, gw}), {2, 0, 1, 2, 0}};
  EXPECT_EQ(split_joint(joint, min_cut()).saved, (std::vector<Value>{x, act}));
}

TEST(Partition, VariantsShareTheSavedValues) {
  GraphWriter writer("joint");
  const Joint joint = two_layers(8, 4, writer);
  const auto split = split_joint(joint, default_partition());
  Graph variant = joint.graph;
  auto outputs = variant.outputs();
  outputs[2] = Value{};  // no gradient for w
  variant.set_outputs(outputs, variant.output_slots());
  const Graph backward = split_backward({variant, joint.layout}, split.saved);
  EXPECT_EQ(backward.inputs().size(), split.backward.inputs().size());
  EXPECT_EQ(count(backward, "aten.gelu_backward"), 0U);
  EXPECT_FALSE(backward.outputs()[1]);
  EXPECT_TRUE(backward.outputs()[2]);
}

TEST(Partition, RefusesAValueThatDependsOnATangent) {
  GraphWriter writer("joint");
  const Joint joint = two_layers(8, 4, writer);
  const Partitioner wrong{"mine", [](const Joint& given) { return std::vector<Value>{given.graph.outputs()[2]}; }};
  EXPECT_THROW(split_joint(joint, wrong), UserError);
  expect_error<std::exception>([&] { split_joint(joint, wrong); },
                               "[split_joint] the partitioner 'mine' chose to save %");
}

TEST(Partition, SaysWhatAPartitionerForgotToSave) {
  GraphWriter writer("joint");
  const Joint joint = two_layers(8, 4, writer);
  const Partitioner nothing{"nothing", [](const Joint&) { return std::vector<Value>{}; }};
  EXPECT_THROW(split_joint(joint, nothing), UserError);
  expect_error<std::exception>([&] { split_joint(joint, nothing); }, "needs the input '");
}

TEST(Partition, SaysThatARandomResultMustBeSaved) {
  GraphWriter writer("joint");
  const Value x = writer.input(torch::rand({4}).requires_grad_(), "x");
  const auto kept = writer.call_all("aten.native_dropout", {x, c10::IValue(0.5), c10::IValue(true)});
  const Value tangent = writer.input(torch::rand({4}), "out", SlotKind::kTangent);
  writer.phase = Phase::kBackward;
  const Value gradient = writer.call("aten.native_dropout_backward", {tangent, kept[1], c10::IValue(2.0)});
  const Joint joint{writer.finish({kept[0], gradient}), {1, 0, 1, 1, 0}};
  const Partitioner inputs_only{"inputs", [x](const Joint&) { return std::vector<Value>{x}; }};
  expect_error<std::exception>([&] { split_joint(joint, inputs_only); }, "must not run twice");
}

TEST(Partition, NamesRoundTrip) {
  for (const char* name : {"default", "min_cut", "hidden_min_cut", "memory_budget(0.5)", "memory_budget(0)"}) {
    EXPECT_EQ(partitioner_by_name(name).name, name);
  }
  expect_error<std::exception>([] { partitioner_by_name("mincut"); }, "choose default, min_cut, hidden_min_cut or ");
  expect_error<std::exception>([] { partitioner_by_name("memory_budget(x)"); }, "expected a number between 0 and 1");
  EXPECT_THROW(partitioner_by_name("memory_budget(1.5)"), UserError);
  EXPECT_THROW(memory_budget(-0.1), UserError);
  EXPECT_THROW(memory_budget(std::nan("")), UserError);
}

TEST(Partition, TakesTimeLinearInTheGraph) {
  const auto milliseconds = [](const Joint& joint, const Partitioner& partitioner) {
    const auto begin = std::chrono::steady_clock::now();
    split_joint(joint, partitioner);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto sample = RandomJoint(1, 4, 900).make();
  for (const auto& partitioner : {default_partition(), min_cut(), memory_budget(0.5)}) {
    const double took = milliseconds(sample.joint, partitioner);
    RecordProperty(partitioner.name, std::to_string(took));
    EXPECT_LT(took, 1000) << partitioner.name;
  }
}

}  // namespace
}  // namespace diptych
