// Functions of which a capture is no use, as whoever watched it says; and gradients of functions that compute more.
#include <torch/autograd.h>

#include <memory>
#include <utility>

#include "diptych/base/error.h"
#include "diptych/compile/gradients.h"
#include "testing/eager_check.h"

namespace diptych::testing {

using namespace detail;
namespace {

/// What a binding would have seen, as a test tells it.
struct Script {
  CaptureWatch::Found found;
  bool is_own_exception = false;
  std::vector<at::Tensor> written = {};
  int runs = 0;
  int finished = 0;
  int forgotten = 0;
};

class ScriptedWatch final : public CaptureWatch {
 public:
  explicit ScriptedWatch(Script& script) : script_(script) {}
  Found finish(const std::vector<at::Tensor>& written) override {
    ++script_.finished;
    script_.written = written;
    return script_.found;
  }
  bool forget() override {
    ++script_.forgotten;
    return script_.is_own_exception;
  }

 private:
  Script& script_;
};

struct Watched {
  std::shared_ptr<Script> script;
  std::unique_ptr<CaptureWatch> watch_capture() const { return std::make_unique<ScriptedWatch>(*script); }
  at::Tensor operator()(const at::Tensor& x) const {
    ++script->runs;
    return (x * script->runs).sum();
  }
};

TEST(Original, RunsWhereACaptureIsNoUse) {
  const auto script = std::make_shared<Script>(Script{{"counts its calls", true}});
  const auto f = aot_function(Watched{script});
  for (int call = 1; call < 4; ++call) {
    EXPECT_EQ(f(torch::ones({2})).item<float>(), 2.0F * static_cast<float>(call + 1));  // the trace was a run, too
  }
  EXPECT_EQ(script->runs, 4);
  EXPECT_EQ(script->finished, 1);
  EXPECT_EQ(f.stats().originals, 3U);
  EXPECT_EQ(f.stats().last_original, "counts its calls");
  f(torch::ones({3}));  // of another size
  EXPECT_EQ(script->runs, 5);
}

TEST(Original, RunsFromTheSecondCallOnIfTheFirstIsDone) {
  const auto script = std::make_shared<Script>(Script{{"takes from an iterator", false}});
  const auto f = aot_function(Watched{script});
  for (int call = 1; call < 4; ++call) {
    EXPECT_EQ(f(torch::ones({2})).item<float>(), 2.0F * static_cast<float>(call));
  }
  EXPECT_EQ(script->runs, 3);
  EXPECT_EQ(f.stats().originals, 2U);
}

TEST(Original, HasGradients) {
  const auto f = aot_function(Watched{std::make_shared<Script>(Script{{"counts its calls", true}})});
  const at::Tensor x = torch::ones({2}).requires_grad_();
  f(x).backward();
  EXPECT_TRUE(at::equal(x.grad(), torch::full({2}, 2.0)));
  const auto both = value_and_grad(Watched{std::make_shared<Script>(Script{{"counts its calls", true}})});
  EXPECT_TRUE(at::equal(both(torch::ones({2})).second, torch::full({2}, 2.0)));
}

TEST(Original, IsAllThatRunsAfterManyCapturesOfNoUse) {
  const auto script = std::make_shared<Script>(Script{{"counts its calls", true}});
  struct Counted : Watched {
    at::Tensor operator()(const at::Tensor& x, int64_t n) const { return Watched::operator()(x) + n; }
  };
  const auto counted = aot_function(Counted{{script}});
  for (int64_t n = 0; n < 40; ++n) counted(torch::ones({2}), n);
  EXPECT_EQ(counted.stats().originals, 40U);
  EXPECT_EQ(counted.stats().misses, 16U);
  counted.clear();
  script->found = {};
  counted(torch::ones({2}), 1);
  counted(torch::ones({2}), 1);
  EXPECT_EQ(counted.stats().hits, 1U);
  EXPECT_EQ(counted.stats().originals, 40U);
}

TEST(Original, IsNotAskedForWhereNothingWasFound) {
  const auto script = std::make_shared<Script>();
  const auto f = aot_function(Watched{script});
  for (int call = 0; call < 3; ++call) f(torch::ones({2}));
  EXPECT_EQ(script->runs, 1);
  EXPECT_EQ(f.stats().originals, 0U);
  EXPECT_EQ(f.stats().hits, 2U);
}

TEST(Original, IsForgottenAfterAnError) {
  struct Throws : Watched {
    at::Tensor operator()(const at::Tensor& x) const { return x * x.sum().item<float>(); }
  };
  const auto script = std::make_shared<Script>();
  const auto f = aot_function(Throws{{script}}, {.path_limit = 0});
  EXPECT_THROW(f(torch::ones({2})), UserError);
  EXPECT_EQ(script->forgotten, 1);
  EXPECT_EQ(script->finished, 0);
}

TEST(Original, RunsToRaiseAnExceptionOfItsOwn) {
  struct Throws : Watched {
    at::Tensor operator()(const at::Tensor& x) const {
      x.add_(1);
      throw std::out_of_range("its own history;");
    }
  };
  const auto script = std::make_shared<Script>();
  const at::Tensor x = torch::zeros({2});
  const auto f = aot_function(Throws{{script}});
  for (const bool is_own : {false, true}) {
    script->is_own_exception = is_own;
    EXPECT_THROW(f(x), std::out_of_range);
    EXPECT_EQ(x.sum().item<float>(), is_own ? 2 : 0);
  }
  EXPECT_EQ(f.stats().originals, 1U);
}

TEST(Original, IsToldWhatGraphsWriteTo) {
  struct Writes : Watched {
    at::Tensor operator()(const at::Tensor& x, const at::Tensor& y) const { return x * y.add_(1); }
  };
  const auto script = std::make_shared<Script>();
  const auto f = aot_function(Writes{{script}});
  const at::Tensor y = torch::ones({2});
  f(torch::ones({2}), y);
  ASSERT_EQ(script->written.size(), 1U);
  EXPECT_TRUE(script->written[0].is_same(y));
}

struct Extras {
  at::Tensor prediction;
  at::Tensor weight;
  int64_t size = 0;
  DIPTYCH_FIELDS(prediction, weight, size)
};

std::pair<at::Tensor, Extras> loss_and_extras(const at::Tensor& w, const at::Tensor& x) {
  const at::Tensor prediction = w * x;
  return {prediction.square().sum(), {prediction, w, x.size(0)}};
}

TEST(Extras, ComeWithTheValue) {
  const at::Tensor w = torch::arange(1.0, 4.0), x = torch::ones({3}) * 2;
  const auto both = value_and_grad(&loss_and_extras);
  for (int call = 0; call < 2; ++call) {
    const auto [result, gradient] = both(w, x);
    EXPECT_TRUE(at::equal(result.first, (w * x).square().sum()));
    EXPECT_TRUE(at::equal(result.second.prediction, w * x));
    EXPECT_TRUE(at::equal(result.second.weight, w));
    EXPECT_EQ(result.second.size, 3);
    EXPECT_TRUE(at::equal(gradient, 2 * w * x * x));
    EXPECT_FALSE(result.second.prediction.requires_grad() || result.second.weight.requires_grad());
  }
  EXPECT_EQ(both.stats().hits, 1U);
  const auto [gradient, extras] = grad(&loss_and_extras)(w, x);
  EXPECT_TRUE(at::equal(gradient, 2 * w * x * x));
  EXPECT_TRUE(at::equal(extras.prediction, w * x));
}

TEST(Extras, AreDifferentiableWhereTheFirstArgumentRequiresGrad) {
  const at::Tensor w = torch::arange(1.0, 4.0).requires_grad_(), x = torch::ones({3}) * 2;
  const auto [result, gradient] = value_and_grad(&loss_and_extras)(w, x);
  const auto second = torch::autograd::grad({gradient.sum() + result.second.prediction.sum()}, {w});
  EXPECT_TRUE(at::equal(second[0], 2 * x * x + x));
}

}  // namespace
}  // namespace diptych::testing
