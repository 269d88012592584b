// Running scans by blocks changes no result: random bodies, forward and backward graphs, and gradients through them.
#include "diptych/scan_passes/block_scans.h"

#include "diptych/graph/identical.h"
#include "diptych/graph/parse.h"
#include "diptych/hops/builtin_hops.h"
#include "diptych/scan_passes/reuse_scan_stacks.h"
#include "hops/no_scan_passes.h"
#include "hops/random_body.h"
#include "testing/pass_case.h"

namespace diptych::testing {

using namespace detail;
namespace {

// Blocks of two or more steps, however little there is.
constexpr BlockLimits kAlways{.block_bytes = 1, .least_bytes = 0, .fewest_steps = 2};

Pair captured(uint64_t seed, int64_t length, bool reverse) {
  const Tensors inputs = RandomBody::inputs(length, static_cast<double>(seed));
  const auto part = [](const Tensors& list, int64_t begin, int64_t end) {
    return Tensors{list.begin() + begin, list.begin() + end};
  };
  const auto loop = [&](const Tensors& t) {
    const RandomBody body(seed, part(t, 7, 10));
    auto [carries, stacks] = scan(body, part(t, 0, 4), part(t, 4, 7), {.reverse = reverse});
    carries.insert(carries.end(), stacks.begin(), stacks.end());
    return carries;
  };
  const NoScanPasses off;
  return capture(loop, inputs);
}

size_t num_blocked(const Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const Node& node) { return node.op.name() == "hop.blocked_scan"; });
}

// The results, and the gradients of a sum of them, by autograd through the graph.
Tensors differentiated(const Graph& graph) {
  Tensors inputs = random_inputs(graph);
  for (at::Tensor& input : inputs) input.requires_grad_();
  Tensors results = Program(graph).run(Tensors(inputs), {.differentiable = true});
  at::Tensor loss = torch::zeros({}, torch::kFloat64);
  for (const at::Tensor& result : results) {
    if (result.defined()) loss = loss + result.square().sum();
  }
  for (const auto& gradient : torch::autograd::grad({loss}, inputs, {}, false, false, /*allow_unused=*/true)) {
    results.push_back(gradient);
  }
  return results;
}

class BlockScans : public ::testing::TestWithParam<int64_t> {};

TEST_P(BlockScans, GiveWhatTheWholeScanGives) {
  size_t blocked = 0, with_front = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    const Pair pair = captured(seed, GetParam(), seed % 2 == 1);
    for (const Graph& whole : {pair.forward, reuse_scan_stacks(pair.forward), pair.backward}) {
      const Graph graph = block_scans(whole, {}, kAlways);
      const size_t count = num_blocked(graph);
      blocked += count;
      with_front += count > 0 && graph.code().find("reuse_scan_stacks") != std::string::npos ? 1 : 0;
      EXPECT_TRUE(same_tensors(Program(graph).run(random_inputs(whole)), Program(whole).run(random_inputs(whole)),
                               {.rtol = 1e-10, .atol = 1e-10, .equal_nan = true}));
      // Fused backward operators have no derivative of their own.
      if (whole.name() != pair.backward.name()) {
        EXPECT_TRUE(same_tensors(differentiated(graph), differentiated(whole),
                                 {.rtol = 1e-9, .atol = 1e-9, .equal_nan = true}));
      }
      EXPECT_TRUE(identical(parse(graph.code(), graph.constants(), find_hop), graph));
      EXPECT_TRUE(identical(block_scans(graph, {}, kAlways), graph)) << "again";
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(blocked, 20);
  EXPECT_GT(with_front, 2);
}

INSTANTIATE_TEST_SUITE_P(Lengths, BlockScans, ::testing::Values(6, 8));

TEST(BlockScansChoice, LeavesAloneWhatGainsNothing) {
  const Pair pair = captured(0, 6, false);
  EXPECT_TRUE(identical(block_scans(pair.forward), pair.forward)) << "small stacks stay in caches";
  const Pair prime = captured(0, 7, false);
  EXPECT_TRUE(identical(block_scans(prime.forward, {}, kAlways), prime.forward)) << "no blocks make seven steps";
  const auto running_sum = [](const at::Tensor& x) {
    const auto step = [](const at::Tensor& sum, const at::Tensor& row) { return std::pair{sum + row, sum * row}; };
    return scan(step, torch::zeros({3}, torch::kFloat64), x).second;
  };
  const NoScanPasses off;
  const Pair plain = capture(running_sum, values({6, 3}).to(torch::kFloat64).requires_grad_());
  EXPECT_EQ(num_blocked(block_scans(plain.forward, {}, kAlways)), 0) << "nothing to compute for many steps at once";
}

// With limits as they are: enough data that blocks are made.
TEST(BlockScansChoice, LongScansOfLargeSlicesAreBlocked) {
  const at::Tensor w = (values({64, 64}, 0.3) * 0.1).requires_grad_(),
                   u = (values({64, 64}, 0.9) * 0.1).requires_grad_();
  const at::Tensor h = values({64, 64}, 0.2).requires_grad_(), xs = values({512, 64, 64}, 0.6).requires_grad_();
  const auto network = [&](const Tensors& t) {
    const auto step = [&](const at::Tensor& carry, const at::Tensor& x) {
      const at::Tensor next = torch::tanh(x.mm(t[0]) + carry.mm(t[1]));
      return std::pair{next, next};
    };
    return scan(step, t[2], t[3]).second;
  };
  const Tensors inputs{w, u, h, xs};
  const Pair pair = capture(network, inputs);
  EXPECT_EQ(num_blocked(pair.forward), 1);
  EXPECT_EQ(num_blocked(pair.backward), 1);
  const auto gradients = [&](const auto& f) { return torch::autograd::grad({f(inputs).square().mean()}, inputs); };
  const auto compiled = aot_function(network);
  const Tensors ours = gradients(compiled);
  const Tensors theirs = gradients([&](const Tensors& t) {
    at::Tensor state = t[2];
    Tensors rows;
    for (const at::Tensor& x : t[3].unbind(0)) rows.push_back(state = torch::tanh(x.mm(t[0]) + state.mm(t[1])));
    return torch::stack(rows);
  });
  EXPECT_TRUE(same_tensors(ours, theirs, {.rtol = 1e-4, .atol = 1e-6}));
}

}  // namespace
}  // namespace diptych::testing
