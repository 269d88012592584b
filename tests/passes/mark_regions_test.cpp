// Policies of checkpoint regions as the marks that they become, and memory budgets of regions.
#include "diptych/passes/mark_regions.h"

#include <torch/types.h>

#include "diptych/graph/parse.h"
#include "testing/random_joint.h"

namespace diptych {

using namespace detail;
namespace {

using detail::CheckpointedRegions;
using testing::JointCase;
using testing::same_tensors;

constexpr std::string_view kText = R"(graph joint(%0 x : f32[4,4] grad, %1 w : f32[4,4] grad, %2 out : f32[4,4] tangent)
  %3 : f32[4,4]{1,4} = aten.t(%1)  # region a
  %4 : f32[4,4] = aten.mm(%0, %3)  # region a
  %5 : f32[16] = aten.view(%4, [16])  # region a/b · named flat
  %6 : f32[16] = aten.tanh(%5)  # region a/b
  %7 : f32[16] = aten.bernoulli(%6)  # region a
  %8 : f32[4,4] = aten._softmax(%4, 1, false)  # region a
  %9 : f32[4,4] = aten.neg(%8)
  %10 : f32[4,4] = aten.neg(%2)  # backward · region a
  return (%9 y, %7 draws, %10 x gradient, none w gradient)
)";

// The marks of each node, "-" where it has none.
std::string marks_of(const CheckpointedRegions& regions) {
  Joint joint{parse(kText), {2, 0, 1, 2, 0}};
  detail::set_region_marks(joint.graph, detail::find_region_marks(joint, regions));
  std::string text;
  for (const Node& node : joint.graph.nodes()) {
    const Provenance& from = node.provenance;
    text += (text.empty() ? "" : " ") + (from.marks.empty() ? "-" : from.marks.str(region_depth(from.region)));
  }
  return text;
}

std::string marks_of(const CheckpointPolicy& outer, const CheckpointPolicy& inner) {
  return marks_of({{{InternedString("a"), outer}, {InternedString("a/b"), inner}}, {}});
}

TEST(MarkRegions, PoliciesDecideNodeByNodeAndDrawsAreSaved) {
  EXPECT_EQ(marks_of(save_nothing(), save_nothing()),
            "recompute recompute recompute/recompute recompute/recompute save recompute - -");
  EXPECT_EQ(marks_of(save_matrix_products(), save_everything_but_pointwise()),
            "recompute save recompute/recompute recompute/recompute save recompute - -");
  EXPECT_EQ(marks_of(save_everything_but_pointwise(), save_nothing()),
            "recompute save recompute/recompute recompute/recompute save save - -");
}

TEST(MarkRegions, ASavedViewSavesWhatItIsAViewOfInItsRegion) {
  // The product is the outer region's; the inner one has no say in it.
  EXPECT_EQ(marks_of(save_names({"flat"}), save_names({"flat"})),
            "recompute save save/save recompute/recompute save recompute - -");
  EXPECT_EQ(marks_of(save_nothing(), save_names({"flat"})),
            "recompute recompute recompute/save recompute/recompute save recompute - -");
}

TEST(MarkRegions, AnIndifferentRuleLeavesNoMark) {
  const CheckpointPolicy none{"none", [](const Graph&, const Node&) { return Rematerialize::kAuto; }};
  EXPECT_EQ(marks_of(none, none), "- - - - - - - -");
  EXPECT_EQ(marks_of(none, save_nothing()), "- - auto/recompute auto/recompute - - - -");
  EXPECT_EQ(marks_of(save_within_budget(1), none), "- - - - - - - -");
}

TEST(MarkRegions, ARuleSeesTheWholeFunction) {
  const CheckpointPolicy large{"large", [](const Graph& graph, const Node& node) {
                                 const bool is_large = graph.meta(node.outputs[0]).sizes.size() > 1;
                                 return is_large ? Rematerialize::kSave : Rematerialize::kRecompute;
                               }};
  EXPECT_EQ(marks_of(large, large), "save save recompute/recompute recompute/recompute save save - -");
}

/// A stretch of a random joint graph's forward as one region.
JointCase random_region(uint64_t seed) {
  JointCase sample = testing::RandomJoint(seed, /*size=*/5, /*length=*/10 + static_cast<int>(seed % 20)).make();
  Graph& graph = sample.joint.graph;
  size_t num_forward = 0;
  while (graph.nodes()[num_forward].provenance.phase == Phase::kForward) ++num_forward;
  for (size_t i = num_forward / 4; i < num_forward; ++i) {
    Provenance from = graph.nodes()[i].provenance;
    from.region = InternedString("a");
    graph.set_provenance(i, from);
  }
  return sample;
}

TEST(RegionBudget, SavedBytesNeverGrowAsItFallsAndValuesStay) {
  bool is_between = false;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto sample = random_region(seed);
    const auto expected = sample.run();
    const auto eager = residual_bytes(split_joint(sample.joint, default_partition()));
    int64_t least = -1;
    int64_t previous = -1;
    for (const double fraction : {0.0, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.0}) {
      Joint joint = sample.joint;
      const CheckpointedRegions regions{{{InternedString("a"), save_within_budget(fraction)}}, {}};
      detail::set_region_marks(joint.graph, detail::find_region_marks(joint, regions));
      const auto split = split_joint(joint, default_partition());
      ASSERT_TRUE(same_tensors(sample.run(split), expected, {.equal_nan = true}))
          << "program " << seed << " at " << fraction;
      const auto bytes = residual_bytes(split);
      ASSERT_GE(bytes, previous) << "program " << seed << " at " << fraction;
      ASSERT_LE(bytes, eager) << "program " << seed << " at " << fraction;
      if (least < 0) least = bytes;
      is_between = is_between || (bytes > least && bytes < eager);
      previous = bytes;
    }
    EXPECT_EQ(previous, eager);
  }
  EXPECT_TRUE(is_between);
}

}  // namespace
}  // namespace diptych
