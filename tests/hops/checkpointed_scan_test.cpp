#include "diptych/ops/treeverse.h"
#include "hops/unrolled.h"

namespace diptych::testing {
namespace {

Tensors decaying_inputs(int64_t length) {
  return {leaf64({3}), leaf64({length, 3}, 0.3), leaf64({3}, 0.7), leaf64({3}, 1.1)};
}

Tensors run_decaying(const Tensors& t, const ScanOptions& options) {
  const auto step = [&](const std::pair<at::Tensor, at::Tensor>& carry, const at::Tensor& x) {
    const at::Tensor h = torch::tanh(carry.first * t[2] + x * carry.second);
    return std::pair{std::pair{h, carry.second * 0.9}, h * t[3]};
  };
  const auto [last, ys] = scan(step, std::pair{t[0], t[0] * 2}, t[1], options);
  return {last.first, last.second, ys};
}

std::vector<at::Tensor> gradients(const Tensors& t, const ScanOptions& options) {
  const Tensors out = run_decaying(t, options);
  return torch::autograd::grad({out[0].sum() + out[1].square().sum() + (out[2] * out[2]).sum()}, t);
}

TEST(CheckpointedScan, GivesThePlainScansGradients) {
  for (const int64_t length : {1, 2, 7, 12, 25}) {
    for (const int64_t carries : {1, 2, 3, 5}) {
      for (const int64_t segment : {0, 1, 2, 5}) {
        for (const bool reverse : {false, true}) {
          const Tensors t = decaying_inputs(length);
          ScanOptions kept{.reverse = reverse, .max_saved_carries = carries};
          if (segment > 0) kept.segment = segment;
          const auto ours = gradients(t, kept), theirs = gradients(t, {.reverse = reverse});
          EXPECT_TRUE(same_tensors(ours, theirs, {.rtol = 1e-12, .atol = 1e-13}))
              << length << carries << segment << reverse;
        }
      }
    }
  }
}

TEST(CheckpointedScan, GradientsAreRightToTheSecondOrder) {
  const auto function = [](const Tensors& t) { return run_decaying(t, {.max_saved_carries = 2, .segment = 1}); };
  expect_gradients_right(decaying_inputs(4), function);
  // In eager, too.
  const Tensors t = decaying_inputs(5);
  const auto second = [&](const ScanOptions& options) {
    const auto first = torch::autograd::grad({run_decaying(t, options)[2].square().sum()}, t, {}, true, true);
    return torch::autograd::grad({first[0].sum() + first[1].square().sum() + first[2].sum()}, t);
  };
  const auto ours = second({.max_saved_carries = 2}), theirs = second({});
  EXPECT_TRUE(same_tensors(ours, theirs, {.rtol = 1e-12, .atol = 1e-13}));
}

TEST(CheckpointedScan, CapturedAsInEager) {
  expect_as_eager([] { return decaying_inputs(9); },
                  [](const Tensors& t) { return run_decaying(t, {.max_saved_carries = 3, .segment = 2}); },
                  {.tolerance = 1e-12});
}

TEST(CheckpointedScan, DrawsOncePerStep) {
  const at::Tensor x = torch::ones({12, 50}, torch::kFloat64).requires_grad_();
  const auto dropped = [&](const ScanOptions& options) {
    torch::manual_seed(11);
    const auto step = [](const at::Tensor& h, const at::Tensor& slice) {
      const at::Tensor next = torch::dropout(h + slice, 0.5, true);
      return std::pair{next, next};
    };
    const at::Tensor ys = scan(step, torch::zeros({50}, torch::kFloat64), x, options).second;
    return std::pair{ys, torch::autograd::grad({ys.sum()}, {x})[0]};
  };
  const auto [a, da] = dropped({});
  const auto [b, db] = dropped({.max_saved_carries = 2, .segment = 2});
  EXPECT_TRUE(torch::equal(a, b));
  EXPECT_TRUE(torch::allclose(da, db));
}

TEST(CheckpointedScan, RefusesByName) {
  const Tensors t = decaying_inputs(4);
  expect_error<UserError>([&] { run_decaying(t, {.max_saved_carries = 0}); }, "options.max_saved_carries is 0");
  expect_error<UserError>([&] { run_decaying(t, {.max_saved_carries = 1, .segment = -1}); }, "options.segment is -1");
}

// The costs of the best schedules, by the recursion that defines them.
int64_t best(int64_t count, int64_t spare, std::map<std::pair<int64_t, int64_t>, int64_t>& known) {
  if (count <= 1) return 0;
  if (spare == 0) return count * (count - 1) / 2;
  auto [entry, is_new] = known.emplace(std::pair{count, spare}, 0);
  if (!is_new) return entry->second;
  int64_t least = count * count;
  for (int64_t first = 1; first < count; ++first) {
    least = std::min(least, first + best(count - first, spare - 1, known) + best(first, spare, known));
  }
  return known[{count, spare}] = least;
}

TEST(Treeverse, AdvancesAsLittleAsCanBe) {
  std::map<std::pair<int64_t, int64_t>, int64_t> known;
  for (int64_t spare = 1; spare < 6; ++spare) {
    for (int64_t count = 1; count < 40; ++count) {
      int64_t in_forward = 0;
      const auto kept = detail::kept_in_forward(count, spare);
      if (!kept.empty()) in_forward = kept.back();
      EXPECT_EQ(detail::advanced_segments(count, spare) + in_forward, best(count, spare, known))
          << count << " " << spare;
      EXPECT_LE(static_cast<int64_t>(kept.size()), spare);
    }
  }
}

// Follows a list of steps: which segment the carry of each place stands in front of.
void follow(int64_t count, int64_t spare) {
  SCOPED_TRACE(::testing::Message() << count << " segments, " << spare << " spare carries");
  std::map<int64_t, int64_t> places{{0, 0}};
  for (const int64_t segment : detail::kept_in_forward(count, spare)) {
    places.emplace(static_cast<int64_t>(places.size()), segment);
  }
  int64_t expected = count, advanced = 0;
  for (const detail::ReversalStep& step : detail::reversal_steps(count, spare)) {
    ASSERT_EQ(places.at(step.load), step.begin);
    advanced += step.end - step.begin;
    if (step.store >= 0) places[step.store] = step.end;
    if (step.segment < 0) continue;
    EXPECT_EQ(step.segment, --expected);
    EXPECT_EQ(step.segment, step.end);
  }
  EXPECT_EQ(expected, 0);
  EXPECT_EQ(advanced, detail::advanced_segments(count, spare));
  EXPECT_LE(static_cast<int64_t>(places.size()), spare + 1);
}

TEST(Treeverse, IsAListOfSteps) {
  for (int64_t spare = 0; spare < 6; ++spare) {
    for (int64_t count = 0; count < 40; ++count) follow(count, spare);
  }
}

}  // namespace
}  // namespace diptych::testing
