// Loops as native steps: beside eager, and what of them can't be planned.
#include <fmt/format.h>
#include <thread>

#include "backends/native/native_case.h"
#include "diptych/base/switches.h"
#include "diptych/native/native_backend.h"
#include "diptych/native/plan/arena_layout.h"
#include "diptych/native/plan/plan.h"
#include "diptych/native/plan/planned_node.h"
#include "diptych/scan_passes/block_scans.h"
#include "diptych/scan_passes/reuse_scan_stacks.h"
#include "hops/no_scan_passes.h"
#include "hops/random_body.h"
#include "testing/pass_case.h"

namespace diptych {

using namespace detail;
namespace {

using testing::expect_as_eager;
using testing::natively;
using testing::Tensors;

testing::CheckOptions natively64() { return natively(1e-11); }

// What was logged of plans while `call` ran.
template <class Call>
std::vector<std::string> plans_of(const Call& call) {
  std::vector<std::string> lines;
  set_log("kernels");
  set_log_sink([&](std::string_view line) {
    for (const std::string_view word : {"planned hop", "runs hop"}) {
      if (line.find(word) != std::string_view::npos) lines.emplace_back(line);
    }
  });
  call();
  set_log("");
  set_log_sink({});
  return lines;
}

// Expects results and gradients as in eager, and that all loops had plans.
void expect_planned(const std::function<Tensors()>& make_inputs,
                    const std::function<Tensors(const Tensors&)>& function) {
  const auto lines = plans_of([&] { expect_as_eager(make_inputs, function, natively64()); });
  EXPECT_FALSE(lines.empty());
  for (const auto& line : lines) EXPECT_NE(line.find("planned hop"), std::string::npos) << line;
}

std::function<Tensors()> leaves64(std::vector<std::vector<int64_t>> sizes) {
  return [sizes = std::move(sizes)] {
    torch::manual_seed(5);
    Tensors leaves;
    for (const auto& size : sizes) leaves.push_back(torch::randn(size, torch::kFloat64).requires_grad_());
    return leaves;
  };
}

Tensors joined(std::pair<Tensors, Tensors> parts) {
  parts.first.insert(parts.first.end(), parts.second.begin(), parts.second.end());
  return parts.first;
}

TEST(Plan, OfABodyIsMadeOnceWhileSomebodyHoldsIt) {
  const auto body = std::make_shared<const Graph>(
      parse("graph f(%0 x : f32[2,3], %1 y : f32[3,4])\n  %2 : f32[2,4] = aten.mm(%0, %1)\n  return (%2 z)\n"));
  auto held = plan_of(body);
  ASSERT_NE(held->plan, nullptr) << held->why;
  EXPECT_EQ(plan_of(body), held);
  EXPECT_NE(plan_of(std::make_shared<const Graph>(*body)), held);
  Tensors inputs{torch::randn({2, 3}), torch::randn({3, 4})};
  EXPECT_TRUE(held->plan->run(inputs).at(0).equal(inputs[0].mm(inputs[1])));
  const std::weak_ptr<const PlanOfBody> watched = std::exchange(held, nullptr);
  EXPECT_TRUE(watched.expired());
}

TEST(ArenaLayout, StretchesNeverOverlapAndAreUsedAgain) {
  torch::manual_seed(3);
  for (int round = 0; round < 50; ++round) {
    ArenaLayout arena;
    std::vector<std::pair<int64_t, int64_t>> taken;
    int64_t live = 0, most = 0;
    for (int i = 0; i < 200; ++i) {
      if (!taken.empty() && torch::randint(0, 2, {1}).item<int64_t>() == 0) {
        const auto index = torch::randint(0, static_cast<int64_t>(taken.size()), {1}).item<int64_t>();
        arena.release(taken[index].first, taken[index].second);
        live -= (taken[index].second + 63) / 64 * 64;
        taken.erase(taken.begin() + index);
        continue;
      }
      const int64_t bytes = torch::randint(1, 1000, {1}).item<int64_t>();
      const int64_t offset = arena.take(bytes);
      EXPECT_EQ(offset % 64, 0);
      EXPECT_LE(offset + bytes, arena.size());
      for (const auto& [other, length] : taken) EXPECT_TRUE(offset + bytes <= other || other + length <= offset);
      taken.emplace_back(offset, bytes);
      live += (bytes + 63) / 64 * 64;
      most = std::max(most, live);
    }
    EXPECT_LE(arena.size(), 2 * most);
    for (const auto& [offset, bytes] : taken) arena.release(offset, bytes);
    const int64_t size = arena.size();
    EXPECT_EQ(arena.take(size), 0);
    EXPECT_EQ(arena.size(), size);
  }
}

// inputs: h [2,3], x [T,2,3], w [3,3], u [3,3]
Tensors rnn(const Tensors& t, const ScanOptions& options = {}) {
  const auto body = [&](const Tensors& carry, const Tensors& x) -> std::pair<Tensors, Tensors> {
    const at::Tensor h = torch::tanh(torch::mm(x[0], t[2]) + torch::mm(carry[0], t[3]));
    return {{h}, {h, h * 2}};
  };
  return joined(scan(body, Tensors{t[0]}, Tensors{t[1]}, options));
}

TEST(PlannedLoop, ScansOfProducts) {
  for (const bool reverse : {false, true}) {
    for (const int64_t length : {1, 2, 7}) {
      SCOPED_TRACE(fmt::format("{} steps, reverse {}", length, reverse));
      expect_planned(leaves64({{2, 3}, {length, 2, 3}, {3, 3}, {3, 3}}),
                     [&](const Tensors& t) { return rnn(t, {.reverse = reverse}); });
    }
  }
}

TEST(PlannedLoop, CarriesThatStaySwapAndAreSwappedWithViews) {
  expect_planned(leaves64({{3, 3}, {3, 3}, {2}, {5, 3, 3}}), [](const Tensors& t) {
    const auto body = [](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      return {{c[1].t(), c[0] * x[0] + 0.5, c[2]}, {c[0], c[2], c[1].t()}};
    };
    return joined(scan(body, Tensors{t[0], t[1], t[2]}, Tensors{t[3]}));
  });
}

TEST(PlannedLoop, ScansInScansAndBranchesInScans) {
  expect_planned(leaves64({{4}, {3, 5, 4}}), [](const Tensors& t) {
    const auto inner = [](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      const auto next = cond(
          c[0].sum() > 0, [&](const Tensors& v) -> Tensors { return {v[0].sin() + v[1]}; },
          [&](const Tensors& v) -> Tensors { return {v[0] * v[1]}; }, Tensors{c[0], x[0]});
      return {{next[0]}, {next[0]}};
    };
    const auto outer = [&](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      return {{scan(inner, Tensors{c[0]}, Tensors{x[0]}).first[0].exp()}, {}};
    };
    return joined(scan(outer, Tensors{t[0]}, Tensors{t[1]}));
  });
}

TEST(PlannedLoop, RunsAsLongAsAConditionHolds) {
  for (const double limit : {10.0, 1e6}) {
    expect_planned(leaves64({{4}, {4}}), [&](const Tensors& t) {
      return while_loop([&](const Tensors& c) { return c[0].abs().sum() < limit; },
                        [&](const Tensors& c) -> Tensors {
                          return {c[0] * 1.5 + t[1], c[1].sin()};
                        },
                        Tensors{t[0], t[0]});
    });
  }
}

TEST(PlannedLoop, OperatorsWithoutKernelsRunByTheInterpreter) {
  expect_planned(leaves64({{6}, {3, 6}}), [](const Tensors& t) {
    const auto body = [](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      const auto sorted = std::get<0>((c[0] + x[0]).sort());
      return {{sorted}, {sorted.cumsum(0)}};
    };
    return joined(scan(body, Tensors{t[0]}, Tensors{t[1]}));
  });
}

// Reads element number `c` of a table, which has six.
Tensors read_table(const Tensors& t) {
  const auto body = [&](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
    return {{c[0] + 1}, {t[1].index_select(0, c[0]) * x[0]}};
  };
  return joined(scan(body, Tensors{t[0]}, Tensors{t[2]}));
}

TEST(PlannedLoop, AnIndexOutOfRangeIsEagersError) {
  const auto compiled = aot_function(read_table, {.backend = "native"});
  const auto table = torch::randn({6}), xs = torch::randn({4, 1});
  const auto start = [](int64_t at) { return torch::full({1}, at, torch::kLong); };
  EXPECT_TRUE(testing::same_tensors(compiled(Tensors{start(1), table, xs}), read_table(Tensors{start(1), table, xs})));
  testing::expect_error([&] { compiled(Tensors{start(4), table, xs}); }, {"index out of range"});
  EXPECT_TRUE(testing::same_tensors(compiled(Tensors{start(2), table, xs}), read_table(Tensors{start(2), table, xs})));
}

TEST(PlannedLoop, TakesInputsOfOtherStrides) {
  const auto f = [](const Tensors& t) { return rnn(t); };
  const auto compiled = aot_function(f, {.backend = "native"});
  const auto inputs = leaves64({{2, 3}, {5, 2, 3}, {3, 3}, {3, 3}})();
  const at::NoGradGuard no_grad;
  const auto lines =
      plans_of([&] { EXPECT_TRUE(testing::same_tensors(compiled(inputs), f(inputs), testing::within(1e-12))); });
  EXPECT_EQ(lines.size(), 1U);
  const Tensors other{inputs[0].t().contiguous().t(), inputs[1].transpose(0, 1).contiguous().transpose(0, 1),
                      inputs[2].t(), inputs[3].expand({3, 3})};
  EXPECT_TRUE(testing::same_tensors(compiled(other), f(other), testing::within(1e-12)));
}

TEST(PlannedLoop, ServesThreadsAtOnce) {
  const auto f = [](const Tensors& t) { return rnn(t); };
  const auto compiled = aot_function(f, {.backend = "native"});
  std::vector<Tensors> inputs, expected;
  for (int number = 1; number <= 4; ++number) {
    inputs.emplace_back();
    for (const auto& leaf : leaves64({{2, 3}, {50, 2, 3}, {3, 3}, {3, 3}})()) {
      inputs.back().push_back(leaf.detach() * number * 0.1);
    }
    expected.push_back(f(inputs.back()));
  }
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(testing::same_tensors(compiled(inputs[number]), expected[number], testing::within(1e-12)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(PlannedLoop, MemoryDoesNotGrowWithTheLength) {
  const auto memory_at = [](int64_t length) {
    const auto lines = plans_of([&] {
      const auto compiled = aot_function([](const Tensors& t) { return rnn(t); }, {.backend = "native"});
      const at::NoGradGuard no_grad;
      compiled(leaves64({{2, 3}, {length, 2, 3}, {3, 3}, {3, 3}})());
    });
    return lines.size() == 1 ? lines[0].substr(lines[0].find("planned")) : fmt::format("{} plans", lines.size());
  };
  EXPECT_NE(memory_at(3).find("bytes"), std::string::npos) << memory_at(3);
  EXPECT_EQ(memory_at(3), memory_at(300));
}

// The tangent of a slice that is a view with gaps has none: the body was traced for one that has.
TEST(PlannedLoop, RowsWithGaps) {
  expect_as_eager(
      leaves64({{2, 3, 4}}),
      [](const Tensors& t) {
        const auto body = [](const Tensors&, const Tensors& x) -> std::pair<Tensors, Tensors> {
          return {{}, {x[0].slice(1, 0, 4, 2)}};
        };
        return joined(scan(body, Tensors{}, Tensors{t[0]}));
      },
      natively64());
}

// An offset of as_strided counts from where the memory of its operand begins, which may be before the operand.
TEST(PlannedLoop, OffsetsFromWhereMemoryBegins) {
  const auto memory = torch::arange(12.0);
  const at::Tensor w = memory.slice(0, 2, 8);
  const auto f = [&](const Tensors& t) -> Tensors {
    return cond(
        t[0].sum() > 0, [&](const Tensors& v) -> Tensors { return {v[0] + w.as_strided({2}, {1}, 3)}; },
        [&](const Tensors& v) -> Tensors { return {v[0] * 1}; }, Tensors{t[0]});
  };
  const auto compiled = aot_function(f, {.backend = "native"});
  const Tensors inputs{torch::ones({2})};
  EXPECT_TRUE(testing::same_tensors(compiled(inputs), f(inputs)));
  EXPECT_TRUE(at::equal(compiled(inputs)[0], torch::tensor({4.0, 5.0})));
}

// Compares a graph that holds a loop with the interpreter. Returns whether all loops were planned.
bool expect_as_interpreted(const Graph& graph, const Tensors& inputs) {
  const NativeBackend backend;
  Tensors copies = inputs, others = inputs;
  Tensors got;
  const auto lines = plans_of([&] { got = backend.compile(backend.prepare(graph))->run(std::move(copies)); });
  EXPECT_FALSE(lines.empty());
  const Tensors expected = Program(graph).run(std::move(others));
  EXPECT_TRUE(testing::same_tensors(got, expected, {.rtol = 1e-10, .atol = 1e-10, .equal_nan = true})) << graph.code();
  return std::none_of(lines.begin(), lines.end(),
                      [](const std::string& line) { return line.find("planned hop") == std::string::npos; });
}

// Forward and backward of scans over random bodies, step by step, with stacks that hold a carry's initial value, and by
// blocks.
TEST(PlannedLoop, RandomBodies) {
  constexpr BlockLimits kAlways{.block_bytes = 1, .least_bytes = 0, .fewest_steps = 2};
  const testing::NoScanPasses as_written;
  size_t whole = 0, blocked = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    const auto part = [](const Tensors& list, int64_t begin, int64_t end) {
      return Tensors{list.begin() + begin, list.begin() + end};
    };
    const auto loop = [&](const Tensors& t) {
      const testing::RandomBody body(seed, part(t, 7, 10));
      return joined(scan(body, part(t, 0, 4), part(t, 4, 7), {.reverse = seed % 2 == 1}));
    };
    const Pair pair = capture(loop, testing::RandomBody::inputs(6, static_cast<double>(seed)));
    for (const Graph& graph : {pair.forward, reuse_scan_stacks(pair.forward), pair.backward}) {
      whole += expect_as_interpreted(graph, testing::random_inputs(graph)) ? 1 : 0;
      const Graph by_blocks = block_scans(graph, {}, kAlways);
      if (by_blocks.code().find("hop.blocked_scan") == std::string::npos) continue;
      blocked += expect_as_interpreted(by_blocks, testing::random_inputs(graph)) ? 1 : 0;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(whole, 20U);
  EXPECT_GT(blocked, 5U);
}

TEST(PlannedLoop, ALoopOfNoSteps) {
  const Tensors inputs{torch::randn({2, 3}), torch::randn({0, 2, 3}), torch::randn({3, 3}), torch::randn({3, 3})};
  EXPECT_TRUE(expect_as_interpreted(capture([](const Tensors& t) { return rnn(t); }, inputs).forward, inputs));
}

// Tensors without elements may have no address.
TEST(PlannedLoop, CarriesAndRowsWithoutElements) {
  const auto loop = [](const Tensors& t) {
    const auto body = [](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      return {{c[0] + x[0], c[1].tanh()}, {x[0], c[0], c[1] * 2}};
    };
    return joined(scan(body, Tensors{t[0], t[1]}, Tensors{t[2]}));
  };
  const Tensors inputs{torch::randn({3, 0}), torch::randn({2, 4}), torch::randn({4, 3, 0})};
  EXPECT_TRUE(expect_as_interpreted(capture(loop, inputs).forward, inputs));
}

TEST(PlannedLoop, ALoopMayEndBeforeItsFirstStep) {
  const auto f = [](const Tensors& t) {
    return while_loop([&](const Tensors& c) { return c[0].sum() < t[1]; },
                      [&](const Tensors& c) -> Tensors { return {c[0] * 2 + 1}; }, Tensors{t[0]});
  };
  const auto compiled = aot_function(f, {.backend = "native"});
  for (const double limit : {100.0, -100.0}) {
    const Tensors inputs{torch::ones({3}), torch::tensor(limit)};
    EXPECT_TRUE(testing::same_tensors(compiled(inputs), f(inputs))) << limit;
  }
}

// Where gradients are recorded, draws are operands of the loop.
TEST(PlannedLoop, LoopsThatDrawAreTheInterpreters) {
  const auto f = [](const Tensors& t) {
    const auto body = [](const Tensors& c, const Tensors& x) -> std::pair<Tensors, Tensors> {
      return {{torch::dropout(c[0] + x[0], 0.5, true)}, {}};
    };
    return joined(scan(body, Tensors{t[0]}, Tensors{t[1]}));
  };
  expect_planned(leaves64({{4}, {3, 4}}), f);
  const at::NoGradGuard no_grad;
  const auto inputs = leaves64({{4}, {3, 4}})();
  const auto lines = plans_of([&] {
    const auto compiled = aot_function(f, {.backend = "native"});
    torch::manual_seed(4);
    const Tensors got = compiled(inputs);
    torch::manual_seed(4);
    EXPECT_TRUE(testing::same_tensors(got, f(inputs)));
  });
  EXPECT_TRUE(lines.empty()) << lines[0];
}

}  // namespace
}  // namespace diptych
