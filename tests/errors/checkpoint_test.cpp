// Messages of checkpoint regions and their policies.
#include <fmt/format.h>
#include "testing/refusal.h"

namespace diptych::testing {

using namespace detail;
namespace {

at::Tensor block(const at::Tensor& x) {
  const CheckpointRegion region(save_names({"hidden", "hiden"}));
  return name_residual(name_residual(x, "start").sin(), "hidden").exp();
}

TEST(Checkpoint, ANameThatNoValueCarriesIsRefusedWithTheKnownOnes) {
  expect_capture_refused(block,
                         {"[checkpoint] region 'checkpoint.0' saves the residual 'hiden', but no value has that name; "
                          "known names: start, hidden; name the value with name_residual(), or correct the name"},
                         ones_leaf({2}));
  const auto nameless = [](const at::Tensor& x) {
    const CheckpointRegion region(save_names({"h"}));
    return x.sin();
  };
  expect_capture_refused(nameless, {"'h', but no value has that name; known names: none;"}, ones_leaf({2}));
}

TEST(Checkpoint, NamesOfOtherRegionsAndOfInputsAreKnown) {
  const auto function = [](const at::Tensor& x) {
    const CheckpointRegion region(save_names({"x", "y"}));
    name_residual(x, "x");
    return name_residual(x.sin(), "y");
  };
  EXPECT_NO_THROW((void)capture(function, ones_leaf({2})));
}

TEST(Checkpoint, APolicyWithoutARuleIsRefused) {
  const auto function = [](const at::Tensor& x) {
    const CheckpointRegion region(CheckpointPolicy{"mine"});
    return x.sin();
  };
  expect_capture_refused(function,
                         {"[checkpoint] the policy 'mine' of region 'checkpoint.0' has no rule; set "
                          "CheckpointPolicy::decide"},
                         ones_leaf({2}));
}

at::Tensor dive(const at::Tensor& x, size_t depth) {
  if (depth == 0) return x.sin();
  const CheckpointRegion region;
  return dive(x, depth - 1);
}

TEST(Checkpoint, RegionsNestSixteenDeepAndNoDeeper) {
  const auto dive_to = [](size_t depth) { return [depth](const at::Tensor& x) { return dive(x, depth); }; };
  const Pair pair = capture(dive_to(RegionMarks::kMaxDepth), ones_leaf({2}));
  EXPECT_EQ(region_depth(pair.forward.nodes().at(0).provenance.region), RegionMarks::kMaxDepth);
  expect_capture_refused(dive_to(RegionMarks::kMaxDepth + 1),
                         {"[checkpoint] got a region inside 16 others, expected at most 15; nest "
                          "checkpoints less deeply"},
                         ones_leaf({2}));
}

TEST(Checkpoint, ABudgetOutsideZeroToOneIsRefused) {
  for (const double fraction : {-0.1, 1.5, std::nan("")}) {
    expect_refusal([&] { (void)save_within_budget(fraction); },
                   {"[save_within_budget] got the fraction " + fmt::format("{}", fraction), "expected one between 0"});
  }
}

TEST(Checkpoint, ANameWithACommaOrNoneIsRefused) {
  for (const char* name : {"", "q,k"}) {
    expect_refusal([&] { (void)name_residual(torch::ones({2}), name); },
                   {std::string("[name_residual] got the name '") + name + "', expected one that is not empty"});
  }
}

}  // namespace
}  // namespace diptych::testing
