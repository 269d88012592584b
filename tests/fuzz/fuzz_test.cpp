// A short run of the random programs, and of the machinery around them.
#include <gtest/gtest.h>

#include "fuzz/campaign.h"
#include "fuzz/check.h"
#include "fuzz/generate.h"
#include "fuzz/shrink.h"

namespace diptych::fuzz {
namespace {

// Eager runs them and we refuse them by name: less than 3 %, as the design asks.
constexpr int kMostRefusals = 29;

TEST(Fuzz, RandomProgramsDoAsInEager) {
  const Counts counts = run_campaign({.programs = 1000, .seed = 1, .most_faults = 5});
  EXPECT_EQ(counts.run, 1000);
  EXPECT_EQ(counts.crashed, 0) << to_string(counts);
  EXPECT_EQ(counts.disagreed, 0) << to_string(counts);
  EXPECT_LE(counts.refused_by_name, kMostRefusals) << to_string(counts);
  EXPECT_GT(counts.agreed, 800) << to_string(counts);
}

TEST(Fuzz, RandomBodiesDoAsTheLoopWrittenOut) {
  const Counts counts = run_campaign({.programs = 300, .seed = 1, .loops = true, .most_faults = 5});
  EXPECT_EQ(counts.run, 300);
  EXPECT_EQ(counts.crashed, 0) << to_string(counts);
  EXPECT_EQ(counts.disagreed, 0) << to_string(counts);
  EXPECT_GT(counts.agreed, 200) << to_string(counts);
}

TEST(Fuzz, SizesThatChangeDoAsInEager) {
  const Counts counts = run_campaign({.programs = 300, .seed = 1, .dynamic = true, .most_faults = 5});
  EXPECT_EQ(counts.run, 300);
  EXPECT_EQ(counts.crashed, 0) << to_string(counts);
  EXPECT_EQ(counts.disagreed, 0) << to_string(counts);
  EXPECT_GT(counts.agreed, 200) << to_string(counts);
}

TEST(Fuzz, CapturedBackwardsDoAsInEager) {
  const Counts counts = run_campaign({.programs = 300, .seed = 2, .captured = true, .most_faults = 5});
  EXPECT_EQ(counts.run, 300);
  EXPECT_EQ(counts.crashed, 0) << to_string(counts);
  EXPECT_EQ(counts.disagreed, 0) << to_string(counts);
  EXPECT_GT(counts.agreed, 250) << to_string(counts);
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
