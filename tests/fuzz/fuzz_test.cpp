// A short run of the random programs, and of the machinery around them.
#include <gtest/gtest.h>

#include "fuzz/campaign.h"
#include "fuzz/check.h"
#include "fuzz/generate.h"
#include "fuzz/shrink.h"
#include "testing/rotation.h"

namespace diptych::fuzz {
namespace {

// Programs that eager runs and Diptych refuses by name are less than 3 % of all.
constexpr int kMostRefusals = 29;

// Runs this run's part of a campaign in which nothing may be wrong. What eager refuses too agrees with nothing, so it
// must not be most of the whole.
Counts run_clean(CampaignOptions options, int more_than) {
  const auto part = testing::part_of_run();
  const int64_t whole = options.programs;
  options.first = whole * part.index / part.of;
  options.programs = whole * (part.index + 1) / part.of - options.first;
  const Counts counts = run_campaign(options);
  EXPECT_EQ(counts.run, options.programs);
  EXPECT_EQ(counts.crashed, 0) << to_string(counts);
  EXPECT_EQ(counts.disagreed, 0) << to_string(counts);
  if (part.is_whole()) EXPECT_GT(counts.agreed, more_than) << to_string(counts);
  return counts;
}

TEST(Fuzz, RandomProgramsDoAsInEager) {
  const Counts counts = run_clean({.programs = 1000, .seed = 1, .most_faults = 5}, 800);
  EXPECT_LE(counts.refused_by_name, kMostRefusals) << to_string(counts);
}

TEST(Fuzz, RandomBodiesDoAsTheLoopWrittenOut) {
  run_clean({.programs = 300, .seed = 1, .loops = true, .most_faults = 5}, 200);
}

TEST(Fuzz, SizesThatChangeDoAsInEager) {
  run_clean({.programs = 300, .seed = 1, .dynamic = true, .most_faults = 5}, 200);
}

TEST(Fuzz, CapturedBackwardsDoAsInEager) {
  run_clean({.programs = 300, .seed = 2, .captured = true, .most_faults = 5}, 250);
}

TEST(Fuzz, RandomProgramsDoAsInEagerByNativeKernels) {
  run_clean({.programs = 300, .seed = 4, .backend = "native", .most_faults = 5}, 250);
}

TEST(Fuzz, RandomBodiesDoAsTheLoopWrittenOutByNativeKernels) {
  run_clean({.programs = 150, .seed = 4, .backend = "native", .loops = true, .most_faults = 5}, 100);
}

TEST(Fuzz, SizesThatChangeDoAsInEagerByNativeKernels) {
  run_clean({.programs = 100, .seed = 4, .dynamic = true, .backend = "native", .most_faults = 5}, 60);
}

TEST(Fuzz, RandomProgramsDoAsInEagerByXla) {
  run_clean({.programs = 25, .seed = 3, .backend = "xla", .most_faults = 5}, 20);
}

TEST(Fuzz, RandomBodiesDoAsTheLoopWrittenOutByXla) {
  run_clean({.programs = 30, .seed = 3, .backend = "xla", .loops = true, .most_faults = 5}, 20);
}

TEST(Fuzz, EqualSeedsGiveEqualPrograms) {
  EXPECT_EQ(to_string(generate(7)), to_string(generate(7)));
  EXPECT_NE(to_string(generate(7)), to_string(generate(8)));
}

TEST(Fuzz, ShrinkingKeepsOnlyWhatFails) {
  // Stands in for a fault: any program in which sin is called.
  const auto judge = [](const Program& program) {
    for (const Statement& statement : program.body) {
      if (statement.op == "sin") return Verdict{Outcome::kDisagreed, "sin", ""};
    }
    return Verdict{};
  };
  for (uint64_t seed = 0;; ++seed) {
    const Program program = generate(seed);
    if (program.body.size() < 5 || !judge(program).is_fault()) continue;
    const Program small = shrink(program, judge(program), judge);
    ASSERT_EQ(small.body.size(), 1U) << to_string(small);
    EXPECT_EQ(small.outputs.size(), 1U);
    EXPECT_TRUE(small.setup.empty());
    EXPECT_EQ(small.partition, "default");
    return;
  }
}

}  // namespace
}  // namespace diptych::fuzz
