// Captured steps against torch::optim: random models, optimizers, options, schedules, hooks, and eager steps between.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/serialize.h>

#include <random>
#include <sstream>

#include "compile/step_check.h"
#include "diptych/backward/backward_capture.h"
#include "testing/rotation.h"

namespace diptych::testing {
namespace {

namespace optim = torch::optim;

/// Everything about one case, drawn from its seed.
class Case {
 public:
  Case(uint64_t seed, at::ScalarType dtype) : random_(seed), dtype_(dtype) {
    torch::manual_seed(static_cast<int64_t>(seed));
    const int64_t inner = 1 + draw(5), width = 1 + draw(4);
    values_ = {weight({width, inner}), weight({inner}), weight({inner, width}), weight({}), weight({3}),
               weight({2, 0})};
    x_ = torch::randn({4, width}, dtype);
    variant_ = draw(4);
    kind_ = draw(3);
    num_groups_ = 1 + draw(3);
    has_momentum_ = draw(3) != 0;
    is_nesterov_ = has_momentum_ && draw(2) == 0;
    amsgrad_ = draw(2) == 0;
    decay_ = draw(2) == 0 ? 0.0 : 0.1;
    dampening_ = !is_nesterov_ && draw(2) == 0 ? 0.3 : 0.0;
    hooked_ = draw(4) == 0;
    const std::vector<std::optional<double>> bounds{{}, 0.05, 100.0, std::numeric_limits<double>::infinity()};
    options_.max_gradient_norm = bounds[draw(4)];
    options_.norm_type = std::vector<double>{2, 2, 1, std::numeric_limits<double>::infinity()}[draw(4)];
    skips_ = draw(3) == 0;
    // Eager has no largest value of an empty gradient.
    if (std::isinf(options_.norm_type)) values_[5] = weight({2, 1});
  }

  const Tensors& values() const { return values_; }
  const StepOptions& options() const { return options_; }
  bool skips() const { return skips_; }

  /// The parameters in groups, each with options of its own.
  std::unique_ptr<optim::Optimizer> make_optimizer(const Tensors& parameters) const {
    std::vector<Tensors> groups(static_cast<size_t>(num_groups_));
    for (size_t i = 0; i < parameters.size(); ++i) groups[i % groups.size()].push_back(parameters[i]);
    if (kind_ == 0) {
      return in_groups<optim::SGD, optim::SGDOptions>(groups, [&](double lr, double more) {
        auto options = optim::SGDOptions(lr).momentum(has_momentum_ ? 0.9 : 0.0).dampening(dampening_);
        return options.nesterov(is_nesterov_).weight_decay(decay_ * more);
      });
    }
    if (kind_ == 1) return in_groups<optim::Adam, optim::AdamOptions>(groups, adam<optim::AdamOptions>());
    return in_groups<optim::AdamW, optim::AdamWOptions>(groups, adam<optim::AdamWOptions>());
  }

  at::Tensor loss(const Tensors& p, int64_t step) const {
    at::Tensor h = torch::tanh(x_.matmul(p[0]) + p[1]);
    if (variant_ == 1) h = torch::relu(h) * p[1];
    if (variant_ == 2) h = torch::softmax(h, 1) + h;
    at::Tensor y = h.matmul(p[2]);
    if (!skips_ || step % 2 == 0) y = y * p[3];
    if (variant_ == 3) y = y + x_.matmul(p[0]).matmul(p[0].t());  // one more use of a weight
    return (y - x_).square().mean() + p[0].sum() * 0.01 + p[5].sum();
  }

  void hook(const Tensors& parameters) const {
    if (hooked_) parameters[0].register_hook([](const at::Tensor& g) { return g * 0.5; });
  }

 private:
  int64_t draw(int64_t count) { return std::uniform_int_distribution<int64_t>(0, count - 1)(random_); }

  // Some are laid out otherwise than in order.
  at::Tensor weight(std::vector<int64_t> sizes) {
    const at::Tensor value = torch::randn(sizes, dtype_) * 0.5;
    return sizes.size() == 2 && draw(2) == 0 ? value.t().contiguous().t() : value;
  }

  template <class Options>
  std::function<Options(double, double)> adam() const {
    return [this](double lr, double more) {
      auto options = Options(lr).betas({0.8, 0.95}).eps(1e-6).amsgrad(amsgrad_);
      return options.weight_decay(decay_ * more);
    };
  }

  template <class Optimizer, class Options, class Make>
  static std::unique_ptr<optim::Optimizer> in_groups(const std::vector<Tensors>& parameters, const Make& make) {
    std::vector<optim::OptimizerParamGroup> groups;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const double more = 1.0 + static_cast<double>(i);
      groups.emplace_back(parameters[i], std::make_unique<Options>(make(0.005 * more, more)));
    }
    return std::make_unique<Optimizer>(groups, make(0.005, 1.0));
  }

  std::mt19937_64 random_;
  at::ScalarType dtype_;
  Tensors values_;
  at::Tensor x_;
  StepOptions options_;
  int64_t variant_ = 0, kind_ = 0, num_groups_ = 1;
  bool has_momentum_ = false, is_nesterov_ = false, amsgrad_ = false, hooked_ = false, skips_ = false;
  double decay_ = 0, dampening_ = 0;
};

void schedule(optim::Optimizer& optimizer, int64_t step) {
  for (auto& group : optimizer.param_groups())
    group.options().set_lr(group.options().get_lr() * (step % 3 ? 0.9 : 1.2));
}

struct Training {
  Training(const Case& made_from, bool is_captured) : from(made_from), parameters(new_leaves(from.values())) {
    from.hook(parameters);
    optimizer = from.make_optimizer(parameters);
    if (is_captured) step.emplace(*optimizer, from.options());
  }
  std::optional<double> run(int64_t number, bool in_eager) {
    schedule(*optimizer, number);
    const at::Tensor loss = from.loss(parameters, number);
    return step && !in_eager ? (*step)(loss) : eager_step(*optimizer, loss, from.options());
  }
  /// As a program does that is started again: a new optimizer reads the state of the old.
  void restart() {
    std::stringstream file;
    torch::save(*optimizer, file);
    step.reset();
    optimizer = from.make_optimizer(parameters);
    torch::load(*optimizer, file);
    step.emplace(*optimizer, from.options());
  }

  const Case& from;
  Tensors parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<TrainingStep> step;
};

void expect_same(std::optional<double> got, std::optional<double> expected, double tolerance) {
  ASSERT_EQ(got.has_value(), expected.has_value());
  EXPECT_NEAR(got.value_or(0), expected.value_or(0), tolerance * std::max(expected.value_or(0), 1e-3));
}

// Threads gain nothing on tensors this small, and wait for each other on a busy machine.
void train(uint64_t seed, at::ScalarType dtype, double tolerance) {
  at::set_num_threads(1);
  backward_capture::reset();
  const Case one(seed, dtype);
  Training eager(one, false), captured(one, true);
  for (int64_t i = 0; i < 20; ++i) {
    const auto expected = eager.run(i, true);
    const auto got = captured.run(i, /*in_eager=*/i == 7 || i == 8);
    expect_same(got, expected, tolerance);
    if (i == 12) captured.restart();
  }
  expect_same_training(*captured.optimizer, captured.parameters, *eager.optimizer, eager.parameters, tolerance);
  for (const at::Tensor& parameter : captured.parameters) EXPECT_FALSE(parameter.grad().defined());
  const auto statistics = backward_capture::statistics();
  EXPECT_EQ(statistics.captures, one.skips() ? 2 : 1);
  EXPECT_EQ(statistics.captures + statistics.hits, 18);
  EXPECT_EQ(statistics.eager, 0);
}

TEST(StepRandom, DoesAsTorchOptimInDoublePrecision) {
  for (const uint64_t seed : rotating_seeds(0, 200)) {
    SCOPED_TRACE(seed);
    train(seed, torch::kFloat64, 1e-12);
    if (HasFailure()) return;
  }
}

TEST(StepRandom, DoesAsTorchOptimInSinglePrecision) {
  for (const uint64_t seed : rotating_seeds(1000, 1100)) {
    SCOPED_TRACE(seed);
    train(seed, torch::kFloat32, 2e-3);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace diptych::testing
