// What checkpoint regions save by their policies, and compute again; their nesting, their graphs, their budgets.
#include "diptych/autodiff/joint_capture.h"
#include "diptych/graph/identical.h"
#include "diptych/passes/storage_roots.h"
#include "semantics/checkpoint_blocks.h"

namespace diptych::testing {

using namespace detail;
namespace {

TEST(CheckpointPolicies, EveryPolicyGivesEagersValuesAndGradients) {
  for (const auto& partition : partitioners()) {
    for (const auto& policy : policies()) {
      SCOPED_TRACE(partition.name + " with " + policy.name);
      CheckOptions options;
      options.aot.partition = partition;
      expect_as_eager([] { return block_leaves(3); }, stack(3, policy), options);
    }
  }
}

TEST(CheckpointPolicies, AStackSavesTheInputOfEachBlockAlone) {
  for (const auto& partition : partitioners()) {
    SCOPED_TRACE(partition.name);
    for (const int count : {1, 2, 5}) {
      // The first block's input is the caller's.
      const Pair pair = captured(stack(count, save_nothing()), block_leaves(count), {.partition = partition});
      EXPECT_EQ(residual_bytes(pair.split), (count - 1) * kActivation) << pair.explain();
      // The last product of a block is needed for its tanh; the sum is not.
      EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 2 * static_cast<size_t>(count)) << pair.code();
    }
  }
}

TEST(CheckpointPolicies, ProductsAreSavedAndNeverRepeated) {
  const Pair pair = captured(stack(3, save_matrix_products()), block_leaves(3));
  EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 0U);
  EXPECT_EQ(residual_bytes(pair.split), (2 + 3 * 2) * kActivation) << pair.explain();
}

TEST(CheckpointPolicies, EverythingButPointwiseIsSaved) {
  const Pair pair = captured(stack(3, save_everything_but_pointwise()), block_leaves(3));
  for (const Node& node : pair.backward.nodes()) {
    if (node.provenance.origin.str() != "recompute") continue;
    EXPECT_TRUE(has_tag(node.op, Tag::kPointwise) || has_tag(node.op, Tag::kSharesStorage)) << node.op.name();
  }
  EXPECT_GT(count_recomputed(pair.backward, Tag::kPointwise), 0U);
}

TEST(CheckpointPolicies, NamedResidualsAreSaved) {
  const Pair pair = captured(stack(3, save_names({"hidden"})), block_leaves(3));
  EXPECT_EQ(residual_bytes(pair.split), (2 + 3) * kActivation) << pair.explain();
  EXPECT_NE(pair.explain().find("aten.mm, named hidden"), std::string::npos) << pair.explain();
  // The first product of each block is there, the second is not.
  EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 3U);
}

TEST(CheckpointPolicies, ANamedViewKeepsWhatItIsAViewOf) {
  const auto function = [](const Tensors& t) -> Tensors {
    const CheckpointRegion region(save_names({"q", "v"}));
    const auto parts = torch::mm(t[0], t[1]).chunk(2, 1);
    return {(name_residual(parts[0], "q").exp() * name_residual(parts[1], "v").sin()).sum()};
  };
  const auto leaves = block_leaves(1);
  const Pair pair = captured(function, leaves);
  EXPECT_EQ(residual_bytes(pair.split), kActivation) << pair.explain();
  EXPECT_EQ(count_recomputed(pair.backward, Tag::kComputeHeavy), 0U) << pair.code();
  expect_as_eager([] { return block_leaves(1); }, function);
}

TEST(CheckpointPolicies, NamesAreNothingOutsideOfATrace) {
  const at::Tensor x = torch::ones({2});
  EXPECT_TRUE(name_residual(x, "x").is_same(x));
  const CheckpointRegion region(save_names({"no such"}));
  EXPECT_TRUE(at::equal(x + x, torch::full({2}, 2.0)));
}

TEST(CheckpointPolicies, NestedRegionsSaveTheOutermostInputs) {
  const auto nested = [](const CheckpointPolicy& outer, const CheckpointPolicy& inner) -> Function {
    return [=](const Tensors& t) -> Tensors {
      at::Tensor x = t[0];
      for (size_t i = 1; i + 3 < t.size(); i += 4) {
        x = checkpoint(outer, [&](const at::Tensor& start) {
          return checkpoint(inner, block)(checkpoint(inner, block)(start, t[i], t[i + 1]), t[i + 2], t[i + 3]);
        })(x);
      }
      return {x.sum()};
    };
  };
  for (const auto& partition : partitioners()) {
    for (const auto& inner : policies()) {
      SCOPED_TRACE(partition.name + ", inside: " + inner.name);
      CheckOptions options;
      options.aot.partition = partition;
      expect_as_eager([] { return block_leaves(4); }, nested(save_nothing(), inner), options);
      EXPECT_EQ(saved_bytes(nested(save_nothing(), inner), block_leaves(4), partition), kActivation);
      expect_as_eager([] { return block_leaves(4); }, nested(save_matrix_products(), inner), options);
    }
  }
  // What follows the inner regions needs their first runs, each inner backward one more; the last block of each outer
  // region is followed by nothing that needs its output.
  const Pair deep = captured(nested(save_nothing(), save_nothing()), block_leaves(4));
  EXPECT_EQ(count_recomputed(deep.backward, Tag::kComputeHeavy), 2U * (2 + 2 + 2)) << deep.code();
  const Pair flat = captured(nested(save_nothing(), save_everything_but_pointwise()), block_leaves(4));
  EXPECT_LT(count_recomputed(flat.backward, Tag::kComputeHeavy), 2U * (2 + 2 + 2));
  const Pair outer_saves = captured(nested(save_matrix_products(), save_nothing()), block_leaves(4));
  EXPECT_EQ(count_recomputed(outer_saves.backward, Tag::kComputeHeavy), 0U);
}

// The most bytes that the values of a backward graph hold at once, each storage from its making to its last use.
int64_t peak_bytes(const Graph& graph) {
  const auto roots = detail::storage_roots(graph);
  std::vector<size_t> last_use(graph.num_values());
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto use = [&](Value value) { last_use[roots[value.id].id] = i; };
    for_each_operand_value(graph.nodes()[i], use);
    for (const Value output : graph.nodes()[i].outputs) {
      if (output) use(output);
    }
  }
  int64_t peak = 0;
  int64_t live = 0;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    for (const Value output : graph.nodes()[i].outputs) {
      if (output && roots[output.id] == output) live += graph.meta(output).nbytes();
    }
    peak = std::max(peak, live);
    for (size_t id = 0; id < last_use.size(); ++id) {
      const auto& info = graph.info(Value{static_cast<int32_t>(id)});
      const bool is_made = info.kind == ValueInfo::Kind::kNode && roots[id].id == static_cast<int32_t>(id);
      if (is_made && last_use[id] == i && static_cast<size_t>(info.node) <= i) live -= info.meta.nbytes();
    }
  }
  return peak;
}

TEST(CheckpointPolicies, NestingNeedsLessMemoryAtOnce) {
  constexpr int kBlocks = 12;
  const auto in_one_region = [](const Function& inside) -> Function {
    return [=](const Tensors& t) { return checkpoint(save_nothing(), inside)(t); };
  };
  const CheckpointPolicy indifferent{"none", [](const Graph&, const Node&) { return Rematerialize::kAuto; }};
  const Pair flat = captured(in_one_region(stack(kBlocks, indifferent)), block_leaves(kBlocks));
  const Pair nested = captured(in_one_region(stack(kBlocks, save_nothing())), block_leaves(kBlocks));
  EXPECT_EQ(residual_bytes(flat.split), 0);
  EXPECT_EQ(residual_bytes(nested.split), 0);
  // A block keeps five activations; nested, the blocks' inputs and one block's are there at once.
  EXPECT_GT(peak_bytes(flat.backward), 5 * kBlocks * kActivation);
  EXPECT_LT(peak_bytes(nested.backward), (kBlocks + 6) * kActivation);
}

TEST(CheckpointPolicies, SurvivesDecomposition) {
  for (const auto& policy : policies()) {
    SCOPED_TRACE(policy.name);
    CheckOptions options;
    options.aot.decompositions = {"all"};
    options.tolerance = 1e-5;
    expect_as_eager([] { return block_leaves(3); }, stack(3, policy), options);
  }
  const AotOptions all{.decompositions = {"all"}};
  const Pair nothing = captured(stack(3, save_nothing()), block_leaves(3), all);
  EXPECT_EQ(residual_bytes(nothing.split), 2 * kActivation) << nothing.explain();
  const Pair named = captured(stack(3, save_names({"hidden"})), block_leaves(3), all);
  EXPECT_EQ(residual_bytes(named.split), (2 + 3) * kActivation) << named.explain();
}

TEST(CheckpointPolicies, ItsGraphsSurviveTextAndFiles) {
  const Pair pair = captured(stack(2, save_names({"hidden"})), block_leaves(2));
  EXPECT_NE(pair.forward.code().find("region checkpoint.0 save · named hidden"), std::string::npos) << pair.code();
  for (const Graph& graph : {pair.forward, pair.backward}) {
    EXPECT_TRUE(identical(parse(graph.code(), all_constants(graph)), graph));
    EXPECT_TRUE(identical(from_json(to_json(graph), all_constants(graph)), graph));
  }
}

TEST(MemoryBudgets, RegionBudgetsAreMonotone) {
  const auto eager = saved_bytes(stack(3, save_within_budget(1)), block_leaves(3), default_partition());
  int64_t previous = saved_bytes(stack(3, save_nothing()), block_leaves(3), default_partition());
  EXPECT_EQ(eager, saved_bytes(
                       [](const Tensors& t) -> Tensors {
                         at::Tensor x = t[0];
                         for (int i = 0; i < 3; ++i) x = block(x, t[2 * i + 1], t[2 * i + 2]);
                         return {x.sum()};
                       },
                       block_leaves(3), default_partition()));
  EXPECT_EQ(saved_bytes(stack(3, save_within_budget(0)), block_leaves(3), default_partition()), previous);
  bool is_between = false;
  for (const double fraction : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0}) {
    const auto bytes = saved_bytes(stack(3, save_within_budget(fraction)), block_leaves(3), default_partition());
    EXPECT_GE(bytes, previous) << fraction;
    EXPECT_LE(bytes, eager) << fraction;
    is_between = is_between || (bytes > previous && bytes < eager);
    previous = bytes;
  }
  EXPECT_TRUE(is_between);
}

// A body is first asked for its forward alone, of which nothing is saved that a budget could be a part of.
TEST(MemoryBudgets, ABudgetIsOfTheFirstBackward) {
  const auto leaves = block_leaves(2);
  const auto function = stack(2, save_within_budget(0.5));
  const auto flat = [&](const std::vector<at::Tensor>& given) { return FlatResult{function(given), {"0"}}; };
  JointCapture capture(flat, leaves, {"x", "w0", "v0", "w1", "v1"}, {"joint", /*exact_outputs=*/true});
  capture.joint({false});
  const auto split = split_joint(capture.joint(), default_partition());
  EXPECT_EQ(residual_bytes(split), saved_bytes(function, leaves, default_partition()));
  EXPECT_GT(residual_bytes(split), saved_bytes(stack(2, save_nothing()), leaves, default_partition()));
}

}  // namespace
}  // namespace diptych::testing
