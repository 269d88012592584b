// The passes over scans together: when they run, what they save, and steps that are unrolled.
#include <cstdlib>

#include "diptych/graph/identical.h"
#include "diptych/scan_passes/pipeline.h"
#include "hops/scan_graphs.h"
#include "hops/unrolled.h"

namespace diptych::testing {

using namespace detail;
namespace {

TEST(OptimizeScans, DoesNothingWhenItIsSwitchedOff) {
  const Graph graph = parse_scan(R"(graph f(%0 h : f64[2], %1 k : f64[2], %2 x : f64[5,2])
  %3 : f64[2], %4 : f64[2], %5 : f64[5,2] = hop.scan(init=[%0, %1], xs=[%2, %2], free=[], length=5, reverse=false) {
    graph body(%0 h : f64[2], %1 k : f64[2], %2 x : f64[2], %3 y : f64[2])
      %4 : f64[2] = aten.addcmul(%2, %0, %1)
      %5 : f64[2] = aten.mul.Tensor(%2, %3)
      return (%4 h, %1 k, %5 y)
  }
  return (%3 h, %4 k, %5 y)
)");
  ::setenv("DIPTYCH_PASSES_OFF", "all", 1);
  EXPECT_TRUE(identical(optimize_scans(graph), graph));
  ::setenv("DIPTYCH_PASSES_OFF", "drop_constant_carries", 1);
  EXPECT_NE(optimize_scans(graph).code().find("hop.scan(init=[%0, %1], xs=[%2]"), std::string::npos);
  ::unsetenv("DIPTYCH_PASSES_OFF");
  EXPECT_NE(optimize_scans(graph).code().find("hop.scan(init=[%0], xs=[%2], free=[%1]"), std::string::npos);
}

// What an RNN keeps is its carries, in memory that the caller has anyway where it gets them.
TEST(OptimizeScans, KeepsOneStackForAnRnn) {
  constexpr int64_t kSteps = 6, kBytes = 2 * 3 * 8;
  const auto rnn = [](bool gives_stack) {
    return [gives_stack](const Tensors& t) -> Tensors {
      const auto step = [&](const Tensors& h, const Tensors& x) -> std::pair<Tensors, Tensors> {
        const at::Tensor next = torch::tanh(torch::mm(x[0], t[2]) + torch::mm(h[0], t[3]) + t[4]);
        return {{next}, {next}};
      };
      const auto [last, rows] = scan(step, Tensors{t[0]}, Tensors{t[1]});
      return {gives_stack ? rows[0] : last[0].sum()};
    };
  };
  const Tensors inputs{leaf64({2, 3}), leaf64({kSteps, 2, 3}), leaf64({3, 3}), leaf64({3, 3}), leaf64({3})};
  for (const bool gives_stack : {false, true}) {
    const Pair pair = capture(rnn(gives_stack), inputs);
    EXPECT_EQ(residual_bytes(pair.split), gives_stack ? 0 : (kSteps + 1) * kBytes) << explain(pair.split);
  }
}

// An output that the backward reads may be changed by its owner; the backward says so, as eager does.
TEST(OptimizeScans, NoticesWhenAnOutputThatItKeptIsChanged) {
  const auto rows_of = [](const Tensors& t) {
    const auto step = [](const Tensors& h, const Tensors& x) -> std::pair<Tensors, Tensors> {
      const at::Tensor next = torch::tanh(h[0] * x[0]);
      return {{next}, {next}};
    };
    return scan(step, Tensors{t[0]}, Tensors{t[1]}).second;
  };
  const Tensors inputs{leaf({3}), leaf({4, 3}, 0.5)};
  const auto change = [&](const Function& function) {
    const at::Tensor rows = function(inputs)[0];
    const at::Tensor loss = rows.sum();
    rows.detach().add_(1);
    loss.backward();
  };
  expect_error<c10::Error>([&] { change(aot_function(rows_of)); }, "modified by an inplace operation");
  expect_error<c10::Error>([&] { change(rows_of); }, "modified by an inplace operation");
}

TEST(Unroll, GivesTheSameBitForBit) {
  const auto step = [](const Tensors& carry, const Tensors& x) -> std::pair<Tensors, Tensors> {
    const at::Tensor h = torch::tanh(carry[1] + x[0]);
    return {{h, carry[0] * x[0]}, {h + carry[0]}};
  };
  const auto run = [&](const Tensors& t, int64_t unroll, bool reverse) {
    const auto [carries, rows] = scan(step, Tensors{t[0], t[1]}, Tensors{t[2]}, {.reverse = reverse, .unroll = unroll});
    return Tensors{carries[0], carries[1], rows[0]};
  };
  const Tensors inputs{values({3}), values({3}, 1), values({7, 3}, 2)};
  for (const bool reverse : {false, true}) {
    const Tensors plain = run(inputs, 1, reverse);
    for (const int64_t unroll : {2, 3, 7, 100}) {
      const Tensors together = run(inputs, unroll, reverse);
      EXPECT_TRUE(same_tensors(together, plain)) << unroll;
    }
  }
  expect_error<UserError>([&] { run(inputs, 0, false); }, "[scan] options.unroll is 0, expected 1 or more");
}

}  // namespace
}  // namespace diptych::testing
