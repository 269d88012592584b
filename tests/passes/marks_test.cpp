// Whatever checkpoints have decided about the nodes of a joint graph, every partitioner obeys, and the two graphs
// compute what the joint graph computes.
#include <torch/types.h>

#include <set>

#include "diptych/graph/parse.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/partition.h"
#include "testing/random_joint.h"

namespace diptych {

using namespace detail;
namespace {

using testing::JointCase;
using testing::same_tensors;

std::vector<Partitioner> obeying_partitioners() {
  // Its choice breaks every mark, and names what the backward does not want.
  const Partitioner stubborn{"stubborn", [](const Joint& joint) {
                               std::vector<Value> all(joint.graph.inputs().begin(), joint.graph.inputs().begin() + 3);
                               for (const Node& node : joint.graph.nodes()) {
                                 if (node.provenance.phase == Phase::kBackward) break;
                                 all.insert(all.end(), node.outputs.begin(), node.outputs.end());
                               }
                               return all;
                             }};
  return {default_partition(), min_cut(), memory_budget(0), memory_budget(0.4), memory_budget(1), stubborn};
}

/// Puts the forward nodes of a random joint graph into regions, with random marks; their scopes become their numbers.
JointCase random_marks(uint64_t seed) {
  JointCase sample = testing::RandomJoint(seed, /*size=*/5, /*length=*/6 + static_cast<int>(seed % 25)).make();
  std::mt19937_64 random(seed);
  const auto pick = [&](size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random); };
  const char* const paths[] = {"", "a", "a/b", "a/c", "d", "d/e", "d/e/f"};
  Graph& graph = sample.joint.graph;
  size_t path = pick(7);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Provenance from = graph.nodes()[i].provenance;
    if (pick(4) == 0) path = pick(7);
    from.region = InternedString(paths[path]);  // autograd's nodes get some, too, seldom the right ones
    if (from.phase == Phase::kForward) {
      from.scope = InternedString(std::to_string(i));
      for (size_t depth = 0; depth < region_depth(from.region); ++depth) {
        from.marks.set(depth, static_cast<Rematerialize>(pick(3)));
      }
    }
    graph.set_provenance(i, from);
  }
  return sample;
}

bool leaves_region(const Graph& joint, Value value) {
  const Provenance& maker = joint.producer(value)->provenance;
  for (const Node& node : joint.nodes()) {
    bool reads = false;
    for_each_operand_value(node, [&](Value operand) { reads = reads || operand == value; });
    if (!reads || node.provenance.phase == Phase::kBackward) continue;
    if (common_region_depth(maker.region, node.provenance.region) <= *maker.marks.deciding_depth()) return true;
  }
  return false;
}

void expect_obeyed(const Graph& joint, const Split& split) {
  for (const Value saved : split.saved) {
    const Node* node = joint.producer(saved);
    if (node == nullptr || draws_random(*node)) continue;
    if (node->provenance.marks.decision() != Rematerialize::kRecompute) continue;
    EXPECT_TRUE(leaves_region(joint, saved)) << "%" << saved.id << " was saved\n" << joint.code();
  }
  for (const Node& node : split.backward.nodes()) {
    if (node.provenance.origin.str() != "recompute") continue;
    const Node& original = joint.nodes().at(std::stoul(node.provenance.scope.str()));
    EXPECT_NE(original.provenance.marks.decision(), Rematerialize::kSave)
        << node.provenance.scope.str() << joint.code();
    EXPECT_FALSE(draws_random(node));
  }
}

TEST(Marks, EveryPartitionerObeysAndTheSplitComputesTheSame) {
  for (uint64_t seed = 0; seed < 90; ++seed) {
    const auto sample = random_marks(seed);
    const auto expected = sample.run();
    for (const auto& partitioner : obeying_partitioners()) {
      SCOPED_TRACE(partitioner.name + " of program " + std::to_string(seed));
      const auto split = split_joint(sample.joint, partitioner);
      ASSERT_TRUE(same_tensors(sample.run(split), expected, {.equal_nan = true}));
      expect_obeyed(sample.joint.graph, split);
      EXPECT_EQ(split_joint(sample.joint, {"again", [&](const Joint&) { return split.saved; }}).saved, split.saved);
      if (HasFailure()) return;
    }
  }
}

TEST(Marks, MemoryBudgetIsMonotoneBesideThem) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto sample = random_marks(seed);
    int64_t previous = -1;
    for (const double fraction : {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}) {
      const auto bytes = residual_bytes(split_joint(sample.joint, memory_budget(fraction)));
      ASSERT_GE(bytes, previous) << "program " << seed << " at " << fraction;
      previous = bytes;
    }
    ASSERT_LE(residual_bytes(split_joint(sample.joint, min_cut())), previous) << "program " << seed;
  }
}

// Two regions inside one: x -> (sin -> tanh) -> (sin -> tanh) -> y. The outer one saves x alone.
constexpr std::string_view kNested = R"(graph joint(%0 x : f32[4] grad, %1 out : f32[4] tangent)
  %2 : f32[4] grad = aten.sin(%0)  # region a/b recompute/recompute
  %3 : f32[4] grad = aten.exp(%2)  # region a/b recompute/recompute
  %4 : f32[4] grad = aten.sin(%3)  # region a/c recompute/recompute
  %5 : f32[4] grad = aten.exp(%4)  # region a/c recompute/recompute
  %6 : f32[4] = aten.mul.Tensor(%1, %5)  # grad of %5 · region a/c
  %7 : f32[4] = aten.cos(%3)  # grad of %4 · region a/c
  %8 : f32[4] = aten.mul.Tensor(%6, %7)  # grad of %4 · region a/c
  %9 : f32[4] = aten.mul.Tensor(%8, %3)  # grad of %3 · region a/b
  %10 : f32[4] = aten.cos(%0)  # grad of %2 · region a/b
  %11 : f32[4] = aten.mul.Tensor(%9, %10)  # grad of %2 · region a/b
  return (%5 out, %11 x gradient)
)";

std::string recomputed(const Split& split) {
  std::string text;
  for (const Node& node : split.backward.nodes()) {
    if (node.provenance.origin.str() == "recompute")
      text += node.op.name() + " in " + node.provenance.region.str() + ", ";
  }
  return text;
}

TEST(Marks, AnInnerRegionIsRecomputedForWhatFollowsItAndForItself) {
  const Joint joint{parse(kNested), {1, 0, 1, 1, 0}};
  const auto split = split_joint(joint, default_partition());
  EXPECT_EQ(split.saved, std::vector<Value>{Value{0}});
  EXPECT_EQ(recomputed(split),
            "aten.sin in a, aten.exp in a, aten.sin in a/c, aten.exp in a/c, aten.sin in a/b, aten.exp in a/b, ");
}

TEST(Marks, AnInnerRegionThatSavesKeepsWhatTheOuterOneRecomputed) {
  std::string text(kNested);
  for (size_t at = 0; (at = text.find("recompute/recompute", at)) != text.npos;) {
    text.replace(at, 19, "recompute/save");
  }
  const auto split = split_joint({parse(text), {1, 0, 1, 1, 0}}, default_partition());
  EXPECT_EQ(split.saved, std::vector<Value>{Value{0}});
  EXPECT_EQ(recomputed(split), "aten.sin in a, aten.exp in a, aten.sin in a, aten.exp in a, ");
}

TEST(Marks, AnInnerRegionDecidesWhereTheOuterOneIsIndifferent) {
  std::string text(kNested);
  for (size_t at = 0; (at = text.find("recompute/recompute", at)) != text.npos;) text.replace(at, 19, "auto/recompute");
  const auto split = split_joint({parse(text), {1, 0, 1, 1, 0}}, default_partition());
  EXPECT_EQ(split.saved, (std::vector<Value>{Value{0}, Value{3}}));
  EXPECT_EQ(recomputed(split), "aten.sin in a/c, aten.exp in a/c, ");
}

TEST(Marks, ExplainCountsWhatIsRecomputedAndNamesResiduals) {
  std::string text(kNested);
  text.replace(text.find("a/b recompute/recompute\n  %4"), 23, "a/b save · named mid");
  const auto split = split_joint({parse(text), {1, 0, 1, 1, 0}}, default_partition());
  const auto table = explain(split);
  EXPECT_NE(table.find("aten.exp, named mid"), std::string::npos) << table;
  EXPECT_NE(table.find("recomputed in a/c: 2 nodes\n"), std::string::npos) << table;
}

}  // namespace
}  // namespace diptych
