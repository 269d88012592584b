// What shapes the calls of a captured backward is in its key: passes that differ in the number of results of a
// Function, in hooks or in the thread's state are not taken for one another. And a graph that meets another pass says
// so.
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

#include "diptych/backward/backward_capture.h"
#include "diptych/backward/eager_nodes.h"
#include "diptych/base/error.h"
#include "testing/expect_error.h"
#include "testing/tensors.h"

namespace diptych::testing {

using namespace detail;
namespace {

namespace ag = torch::autograd;

/// As many results as it is told: the argument times 1, 2, 3 ...
struct Fan : ag::Function<Fan> {
  static Tensors forward(ag::AutogradContext* context, at::Tensor x, int64_t count, bool materialize) {
    context->set_materialize_grads(materialize);
    Tensors results;
    for (int64_t i = 0; i < count; ++i) results.push_back(x * (i + 1));
    return results;
  }
  static Tensors backward(ag::AutogradContext* /*context*/, Tensors gradients) {
    at::Tensor total;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const at::Tensor part = gradients[i] * static_cast<int64_t>(i + 1);
      total = total.defined() ? total + part : part;
    }
    return {total, at::Tensor(), at::Tensor()};
  }
};

/// The same for whoever replays it: what it holds is lifted out of it, one number or several of two kinds.
struct Powers : ag::Function<Powers> {
  static constexpr bool is_traceable = true;
  static at::Tensor forward(ag::AutogradContext* context, at::Tensor x, std::vector<double> factors, int64_t power) {
    context->save_for_backward({x});
    context->saved_data["power"] = power;
    at::Tensor sum = at::zeros_like(x);
    for (size_t i = 0; i < factors.size(); ++i) {
      context->saved_data["factor" + std::to_string(i)] = factors[i];
      sum = sum + x.pow(power) * factors[i];
    }
    return sum;
  }
  static Tensors backward(ag::AutogradContext* context, Tensors gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const int64_t power = context->saved_data["power"].toInt();
    at::Tensor sum = at::zeros_like(x);
    for (const auto& [name, value] : context->saved_data) {
      if (name != "power") sum = sum + gradients[0] * x.pow(power - 1) * power * value.toDouble();
    }
    return {sum, at::Tensor(), at::Tensor()};
  }
};

struct Twice : ag::Function<Twice> {
  static at::Tensor forward(ag::AutogradContext* context, at::Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    return x;
  }
  static Tensors backward(ag::AutogradContext* /*context*/, Tensors gradients) { return {gradients[0] * 2}; }
};

at::Tensor counting_leaf() { return torch::arange(1, 4, torch::kFloat64).requires_grad_(); }

TEST(BackwardKey, FunctionsOfAnyNumberOfResults) {
  const auto gradient = [](int64_t count, bool materialize, size_t used) {
    const at::Tensor x = counting_leaf();
    Fan::apply(x, count, materialize)[used].sum().backward();
    return x.grad();
  };
  const BackwardCapture capture;
  for (int round = 0; round < 2; ++round) {
    for (const int64_t count : {3, 1, 2, 5, 1, 3}) {
      for (const bool materialize : {true, false}) {
        for (int64_t used = 0; used < count; ++used) {
          const at::Tensor expected = at::full({3}, used + 1, torch::kFloat64);
          EXPECT_TRUE(gradient(count, materialize, used).equal(expected)) << count << " " << used;
        }
      }
    }
  }
  EXPECT_EQ(capture.stats().eager, 0);
  EXPECT_GT(capture.stats().hits, 20);
}

TEST(BackwardKey, NumbersThatAFunctionHolds) {
  const auto gradient = [](const std::vector<double>& first, const std::vector<double>& second, int64_t power) {
    const at::Tensor x = counting_leaf();
    const at::Tensor y = Powers::apply(x, first, power) + Fan::apply(x, 2, true)[0];
    (y * Powers::apply(x.sin(), second, 2)).sum().backward();
    return x.grad();
  };
  const std::vector<std::vector<double>> lists{{0.5}, {0.5, 2}, {1, 2, 3}, {0}};
  for (const int64_t power : {2, 3}) {
    for (const auto& first : lists) {
      for (const auto& second : lists) {
        const at::Tensor expected = gradient(first, second, power);
        const BackwardCapture capture;
        for (int pass = 0; pass < 2; ++pass) {
          EXPECT_TRUE(at::allclose(gradient(first, second, power), expected)) << first.size() << second.size();
        }
      }
    }
  }
}

TEST(BackwardKey, FunctionsThatChangeAViewInPlace) {
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> views{
      [](const at::Tensor& t) { return t.slice(0, 0, 2); }, [](const at::Tensor& t) { return t[0]; },
      [](const at::Tensor& t) { return t.view({3}); }, [](const at::Tensor& t) { return t; }};
  for (const auto& view : views) {
    const auto gradient = [&] {
      const at::Tensor x = counting_leaf();
      const at::Tensor base = x.clone();
      const at::Tensor part = Twice::apply(view(base));
      (base.square().sum() + part.sum()).backward();
      return x.grad();
    };
    const at::Tensor expected = gradient();
    const BackwardCapture capture;
    for (int pass = 0; pass < 3; ++pass) EXPECT_TRUE(gradient().equal(expected));
    EXPECT_EQ(capture.stats().captures, 1);
    EXPECT_EQ(capture.stats().hits, 2);
  }
}

TEST(BackwardKey, TheCopyOfASliceRunsOnce) {
  const at::Tensor x = counting_leaf();
  const at::Tensor base = x.clone();
  base[0].mul_(3);
  const at::Tensor loss = base.sum();
  const BackwardCapture capture;
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(BackwardKey, HooksOfAFunctionsNodeRunOnce) {
  struct Count final : ag::FunctionPreHook {
    explicit Count(int& count) : count_(count) {}
    Tensors operator()(const Tensors& gradients) override {
      ++count_;
      return gradients;
    }
    int& count_;
  };
  const auto counted = [](bool captured) {
    int count = 0;
    const at::Tensor x = counting_leaf();
    const at::Tensor y = Fan::apply(x, 2, true)[1];
    y.grad_fn()->add_pre_hook(std::make_unique<Count>(count));
    std::optional<BackwardCapture> capture;
    if (captured) capture.emplace();
    y.sum().backward();
    return count;
  };
  EXPECT_EQ(counted(false), 1);
  EXPECT_EQ(counted(true), 1);
  EXPECT_EQ(counted(true), 1);
}

TEST(BackwardKey, ManyHooksAreNotNone) {
  const auto counted = [](int hooks) {
    int count = 0;
    const at::Tensor x = counting_leaf();
    const at::Tensor y = x * 2;
    for (int i = 0; i < hooks; ++i) y.register_hook([&](const at::Tensor& /*gradient*/) { ++count; });
    y.sum().backward();
    return count;
  };
  const BackwardCapture capture;
  for (const int hooks : {0, 256, 1, 257, 0, 512}) EXPECT_EQ(counted(hooks), hooks);
}

TEST(BackwardKey, TheThreadsStateIsInIt) {
  const auto gradient = [](std::optional<at::ScalarType> lower) {
    torch::manual_seed(4);
    const at::Tensor x = torch::randn({4, 4}).requires_grad_();
    const at::Tensor loss = x.matmul(x).square().sum();
    const bool was = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, lower.has_value());
    if (lower) at::autocast::set_autocast_dtype(at::kCPU, *lower);
    loss.backward();
    at::autocast::set_autocast_enabled(at::kCPU, was);
    at::autocast::clear_cache();
    return x.grad();
  };
  const std::vector<std::optional<at::ScalarType>> kinds{std::nullopt, at::kBFloat16, std::nullopt, at::kHalf};
  Tensors expected;
  for (const auto& kind : kinds) expected.push_back(gradient(kind));
  EXPECT_FALSE(expected[0].equal(expected[1]));
  backward_capture::reset();
  const BackwardCapture capture;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kinds.size(); ++i) EXPECT_TRUE(gradient(kinds[i]).equal(expected[i])) << i;
  }
  EXPECT_EQ(capture.stats().captures, 3);
  EXPECT_EQ(capture.stats().misses_by_reason.at("other state"), 2);
  EXPECT_EQ(capture.stats().misses[1], " changed to autocast on CPU to BFloat16");
}

TEST(BackwardKey, ALeafMayWantItsGradientInAnotherDtype) {
  const BackwardCapture capture;
  const at::Tensor x = torch::ones({2}, torch::kFloat32).requires_grad_();
  const auto node = ag::impl::grad_accumulator(x);
  for (const auto dtype : {at::kFloat, at::kDouble, at::kFloat, at::kDouble}) {
    node->mutable_input_metadata(0).set_grad_dtype(dtype);
    x.mutable_grad().reset();
    const auto found = ag::grad({(x * 3).sum()}, {x});
    EXPECT_EQ(found[0].scalar_type(), dtype);
  }
}

/// Random passes that are alike enough to be taken for one another: Functions of any arity in any place of a few nodes.
class RandomPass {
 public:
  explicit RandomPass(uint64_t seed) : random_(seed) {}

  Tensors gradients() {
    const Tensors leaves{counting_leaf(), (counting_leaf().detach() / 2).requires_grad_()};
    Tensors pool = leaves;
    const size_t count = 1 + pick(4);
    for (size_t i = 0; i < count; ++i) grow(pool);
    at::Tensor loss = pool.back().sum() + any(pool).square().sum();
    if (pick(3) == 0) return ag::grad({loss}, {leaves[pick(2)], any(pool)}, {}, pick(2) == 0, pick(3) == 0, true);
    if (pick(3) == 0) {
      loss.backward({}, true, false, at::TensorList{leaves[0]});
    } else {
      loss.backward();
    }
    return {leaves[0].grad(), leaves[1].grad()};
  }

 private:
  size_t pick(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(random_); }
  at::Tensor any(const Tensors& pool) { return pool[pick(pool.size())]; }

  void grow(Tensors& pool) {
    const at::Tensor x = any(pool);
    switch (pick(7)) {
      case 0:
      case 1: {
        const auto made = Fan::apply(x, static_cast<int64_t>(1 + pick(4)), pick(2) == 0);
        pool.push_back(made[pick(made.size())]);
        if (pick(2) == 0) pool.push_back(made[pick(made.size())]);
        break;
      }
      case 2:
        pool.push_back(Powers::apply(x, std::vector<double>(1 + pick(3), 0.25), static_cast<int64_t>(1 + pick(3))));
        break;
      case 3: {
        const at::Tensor base = x.clone();
        Twice::apply(pick(2) == 0 ? base.slice(0, 0, 2) : base.slice(0, 1, 3));
        pool.push_back(base);
        break;
      }
      case 4:
        pool.push_back(x.sin());
        for (size_t i = pick(3); i > 0; --i) pool.back().register_hook([](const at::Tensor& g) { return g * 1.25; });
        break;
      case 5:
        pool.push_back(x * any(pool));
        break;
      default:
        pool.push_back(x + any(pool).sum());
        if (pick(2) == 0) pool.back().retain_grad();
        break;
    }
  }

  std::mt19937_64 random_;
};

TEST(BackwardKey, RandomPassesInOneCacheAreNotTakenForOneAnother) {
  constexpr uint64_t kSeeds = 300;
  std::vector<Tensors> expected;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) expected.push_back(RandomPass(seed).gradients());
  backward_capture::reset();
  const BackwardCapture capture;
  std::vector<uint64_t> order(kSeeds);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(5);
  for (int round = 0; round < 3; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const uint64_t seed : order) {
      const Tensors got = RandomPass(seed).gradients();
      ASSERT_EQ(got.size(), expected[seed].size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].defined(), expected[seed][i].defined()) << "seed " << seed << ", gradient " << i;
        if (!got[i].defined()) continue;
        ASSERT_TRUE(at::allclose(got[i].detach(), expected[seed][i].detach()))
            << "seed " << seed << ", gradient " << i << ": " << got[i] << expected[seed][i];
      }
    }
  }
  EXPECT_GT(capture.stats().hits, kSeeds);
  EXPECT_EQ(capture.stats().eager, 0);
}

// The guard against the class: were something missing in the key, this is what would be seen.
TEST(BackwardKey, AGraphThatMeetsAnotherRunIsOurFault) {
  const at::Tensor x = counting_leaf();
  const at::Tensor y = Fan::apply(x, 3, true)[0];
  std::vector<detail::RunCall> calls(1);
  calls[0].node = y.grad_fn();
  const detail::MaybeUndefined none;
  detail::EagerCall live{0, detail::EagerStage::kNode, {true}, {{}}, {true}, 0};
  const auto message = [&] {
    detail::EagerRun run(calls, /*num_numbers=*/1, /*keeps_graph=*/true, none);
    try {
      run.call(live, {torch::ones({3})});
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(message().find("with 1 gradients for 1 results, but in this run it takes 3 and returns 1"),
            std::string::npos)
      << message();
  live.is_given = {true, false, false};
  EXPECT_EQ(message(), "");
  live.first_number = 7;
  expect_contains(message(), "results from number 7 on");
  live.call = 2;
  expect_contains(message(), "runs node 2 of a run of 1 nodes");
}

}  // namespace
}  // namespace diptych::testing
