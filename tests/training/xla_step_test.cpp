// Training steps on a device beside eager ones.
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "diptych/hops/checkpoint.h"
#include "diptych/tree/module.h"
#include "training/step_check.h"

namespace diptych {
namespace {

using namespace testing;

class OptimizerOnDevice : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(OptimizerOnDevice, TrainsAsEager) {
  const Mlp model = make_mlp(), expected = make_mlp();
  const auto optimizer = GetParam().make(model.parameters()), eager = GetParam().make(expected.parameters());
  const auto step = xla::capture_step(*optimizer, mlp_loss);
  for (int64_t i = 0; i < 4; ++i) {
    const auto batch = make_batch(6, i);
    EXPECT_NEAR(step(model, batch).loss.item(), eager_step(*eager, mlp_loss, expected, batch).item<double>(), 1e-10);
  }
  EXPECT_EQ(step.num_programs(), 1);
  expect_near(model.parameters(), make_mlp().parameters());  // until sync(), the host keeps what it had
  step.sync();
  expect_near(model.parameters(), expected.parameters());
}

// The state moves both ways: eager steps, then steps on the device, then eager ones, with rates that change.
TEST_P(OptimizerOnDevice, ContinuesAndIsContinued) {
  const Mlp model = make_mlp(), expected = make_mlp();
  const auto optimizer = GetParam().make(model.parameters()), eager = GetParam().make(expected.parameters());
  const auto set_rate = [](torch::optim::Optimizer& of, double rate) {
    for (auto& group : of.param_groups()) group.options().set_lr(rate);
  };
  const auto step = xla::capture_step(*optimizer, mlp_loss);
  for (int64_t i = 0; i < 9; ++i) {
    const auto batch = make_batch(6, i);
    set_rate(*optimizer, 0.02 * static_cast<double>(i + 1));
    set_rate(*eager, 0.02 * static_cast<double>(i + 1));
    eager_step(*eager, mlp_loss, expected, batch);
    const bool is_on_device = (i / 3) % 2 == 1;
    if (is_on_device) {
      step(model, batch);
      if (i % 3 == 2) step.sync();
    } else {
      eager_step(*optimizer, mlp_loss, model, batch);
    }
  }
  expect_near(model.parameters(), expected.parameters());
  EXPECT_EQ(step.num_programs(), 1);
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerOnDevice, ::testing::ValuesIn(optimizer_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(XlaStep, ClipsByTheNormOfAllGradients) {
  const Mlp model = make_mlp(), expected = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, mlp_loss, {.max_gradient_norm = 0.05});
  for (int64_t i = 0; i < 2; ++i) {
    const auto batch = make_batch(6, i);
    const double norm = step(model, batch).gradient_norm.item();
    eager.zero_grad();
    mlp_loss(expected, batch).backward();
    double squares = 0;
    for (const auto& parameter : expected.parameters()) squares += parameter.grad().square().sum().item<double>();
    EXPECT_NEAR(norm, std::sqrt(squares), 1e-10);
    for (const auto& parameter : expected.parameters()) parameter.grad().mul_(0.05 / (std::sqrt(squares) + 1e-6));
    eager.step();
  }
  step.sync();
  expect_near(model.parameters(), expected.parameters());
}

TEST(XlaStep, KeepsTheStatisticsOfAModule) {
  const auto make = [] {
    at::manual_seed(3);
    // A bias in front of the normalization has a gradient of nothing but rounding.
    torch::nn::Linear linear(torch::nn::LinearOptions(4, 3).bias(false));
    torch::nn::BatchNorm1d norm(3);
    return std::pair(linear, norm);
  };
  const auto loss = [](torch::nn::Linear& linear, torch::nn::BatchNorm1d& norm, const at::Tensor& x) {
    return norm->forward(linear->forward(x)).relu().square().mean();
  };
  const auto parameters = [](auto& model) {
    auto list = model.first->parameters();
    for (auto& parameter : model.second->parameters()) list.push_back(parameter);
    return list;
  };
  auto model = make(), expected = make();
  torch::optim::Adam optimizer(parameters(model), 0.05), eager(parameters(expected), 0.05);
  const auto step = xla::capture_step(optimizer, loss);
  for (int64_t i = 0; i < 3; ++i) {
    const auto x = make_batch(6, i).to(at::kFloat);
    step(model.first, model.second, x);
    eager.zero_grad();
    loss(expected.first, expected.second, x).backward();
    eager.step();
  }
  step.sync();
  expect_near(parameters(model), parameters(expected), 1e-4);
  expect_near(model.second->buffers(), expected.second->buffers(), 1e-5);
  EXPECT_EQ(model.second->num_batches_tracked.item<int64_t>(), 3);
}

TEST(XlaStep, SumsTheGradientsOfATensorThatIsPassedTwice) {
  const auto loss = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& x) {
    return (x.mm(a).tanh() * b.sum()).sum();
  };
  const at::Tensor w = make_mlp().w1, expected = make_mlp().w1;
  torch::optim::AdamW optimizer(std::vector{w}, 0.1), eager(std::vector{expected}, 0.1);
  const auto step = xla::capture_step(optimizer, loss);
  for (int64_t i = 0; i < 3; ++i) {
    step(w, w, make_batch(5, i));
    eager_step(eager, loss, expected, expected, make_batch(5, i));
  }
  step.sync();
  expect_near(w, expected);
}

TEST(XlaStep, ReturnsExtrasAndServesSeveralSizes) {
  const auto loss = [](const Mlp& model, const at::Tensor& x) {
    const at::Tensor y = x.mm(model.w1);
    return std::pair(y.square().mean(), std::vector<at::Tensor>{y.t(), x, y.argmax(1)});
  };
  const Mlp model = make_mlp(), expected = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, loss);
  for (const int64_t rows : {3, 5, 3}) {
    const auto x = make_batch(rows, rows);
    const auto got = step(model, x);
    const auto [value, extras] = loss(expected, x);
    eager.zero_grad();
    value.backward();
    ASSERT_EQ(got.extras.size(), extras.size());
    EXPECT_NEAR(got.loss.item(), value.item<double>(), 1e-12);
    for (size_t i = 0; i < 2; ++i) expect_near(got.extras[i].tensor(), extras[i].detach());
    EXPECT_TRUE(at::equal(got.extras[2].tensor(), extras[2]));
    eager.step();
  }
  EXPECT_EQ(step.num_programs(), 2);
  step.sync();
  expect_near(model.w1, expected.w1);
  expect_near(model.w2, make_mlp().w2);  // the loss does not reach it
}

TEST(XlaStep, DrawsWhatEagerDraws) {
  const auto loss = [](const Mlp& model, const at::Tensor& x) {
    const at::Tensor hidden = at::dropout(at::tanh(x.mm(model.w1)), 0.4, /*train=*/true);
    return (hidden.mm(model.w2) + at::randn({2}, at::kDouble)).square().mean();
  };
  const Mlp model = make_mlp(), expected = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, loss);
  std::vector<double> got, wanted;
  at::manual_seed(8);
  const auto x = make_batch(6, 1);
  for (int i = 0; i < 3; ++i) got.push_back(step(model, x).loss.item());
  at::manual_seed(8);
  const auto again = make_batch(6, 1);
  for (int i = 0; i < 3; ++i) wanted.push_back(eager_step(eager, loss, expected, again).item<double>());
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12);
  step.sync();
  expect_near(model.parameters(), expected.parameters());
}

TEST(XlaStep, LetsABatchChangeAsSoonAsItReturns) {
  const Mlp model = make_mlp(), expected = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, mlp_loss);
  at::Tensor batch = at::empty({64, 4}, at::kDouble);
  for (int64_t i = 0; i < 20; ++i) {
    batch.copy_(make_batch(64, i));
    step(model, batch);
    batch.fill_(1e9);
    eager_step(eager, mlp_loss, expected, make_batch(64, i));
  }
  step.sync();
  expect_near(model.parameters(), expected.parameters());
}

TEST(XlaStep, ChangesABatchAndForgetsIt) {
  const Mlp model = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, [](const Mlp& m, at::Tensor& x) {
    x.mul_(2);
    return mlp_loss(m, x);
  });
  step(model, make_batch(6, 0));
  step.sync();
  const size_t alone = step.state_bytes();
  at::Tensor kept = make_batch(6, 0);
  step(model, kept);
  step.sync();
  expect_near(kept, make_batch(6, 0) * 2);
  EXPECT_EQ(step.state_bytes(), alone + kept.nbytes());
}

TEST(XlaStep, TakesChangesOfTheHostAfterASync) {
  const Mlp model = make_mlp(), expected = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, mlp_loss);
  const auto halve = [](const Mlp& of) {
    const at::NoGradGuard no_grad;
    of.w1.mul_(0.5);
  };
  step(model, make_batch(6, 0));
  halve(model);
  expect_error([&] { step(model, make_batch(6, 1)); }, "'arg0.w1' was changed on the host after a step");
  step.sync();
  halve(model);
  step(model, make_batch(6, 1));
  step.sync();
  eager_step(eager, mlp_loss, expected, make_batch(6, 0));
  halve(expected);
  eager_step(eager, mlp_loss, expected, make_batch(6, 1));
  expect_near(model.parameters(), expected.parameters());
}

TEST(XlaStep, SyncsAtItsEnd) {
  const Mlp model = make_mlp(), expected = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1), eager(expected.parameters(), 0.1);
  xla::capture_step(optimizer, mlp_loss)(model, make_batch(6, 0));
  eager_step(eager, mlp_loss, expected, make_batch(6, 0));
  expect_near(model.parameters(), expected.parameters());
}

TEST(XlaStep, RefusesWhatItCannotHold) {
  const Mlp model = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const auto x = make_batch(4, 0);
  const auto refuses = [&](const char* why, const auto& function, const auto&... arguments) {
    const auto step = xla::capture_step(optimizer, function, {.argument_names = {"model", "x"}});
    expect_error([&] { step(arguments...); }, why);
  };
  refuses(
      "is not a loss", [](const Mlp& m, const at::Tensor& y) { return y.mm(m.w1); }, model, x);
  refuses(
      "is not a loss", [](const Mlp&, const at::Tensor& y) { return y.sum(); }, model, x);
  refuses("'x' is an undefined tensor", mlp_loss, model, at::Tensor());
  refuses("'x' is on meta, expected the CPU", mlp_loss, model, x.to(at::kMeta));
  refuses(
      "no lowering to XLA", [](const Mlp& m, const at::Tensor& y) { return y.to(at::kDouble).mm(m.w1).sum(); }, model,
      x.to(at::kFloat8_e5m2));
  refuses("'x' requires grad and is not a parameter", mlp_loss, model, make_batch(4, 1).requires_grad_());
  refuses("shares memory with 'model.w1'", mlp_loss, Mlp{model.w1, model.w1.detach().select(0, 0), model.w2}, x);
  refuses(
      "aten._linalg_svd", [](const Mlp& m, const at::Tensor& y) { return at::linalg_svdvals(y.mm(m.w1)).sum(); }, model,
      x);
  expect_error([&] { xla::capture_step(optimizer, mlp_loss, {.max_gradient_norm = -1.0}); }, "max_gradient_norm is -1");
  expect_error([&] { xla::capture_step(optimizer, mlp_loss, {.norm_type = 0}); }, "norm_type is 0");
  expect_near(model.parameters(), make_mlp().parameters());
}

// With weights of one, a loss that is linear in them is the sum of its gradient: forward and backward have one mask.
TEST(XlaStep, DrawsOnTheDevice) {
  const auto loss = [](const at::Tensor& w, const at::Tensor& x) {
    const auto noisy =
        checkpoint([](const at::Tensor& y) { return at::dropout(y, 0.5, /*train=*/true) * at::rand_like(y); });
    return noisy(w * x).sum();
  };
  const auto run = [&] {
    at::manual_seed(4);
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      const at::Tensor w = at::ones({20, 30}, at::kDouble).requires_grad_();
      torch::optim::SGD optimizer(std::vector{w}, 1.0);
      const auto step = xla::capture_step(optimizer, loss, {.draws = "device"});
      losses.push_back(step(w, at::ones({20, 30}, at::kDouble)).loss.item());
      step.sync();
      EXPECT_NEAR(losses.back(), (1 - w.detach()).sum().item<double>(), 1e-9);
    }
    return losses;
  };
  const auto first = run();
  EXPECT_NE(first[0], first[1]);
  EXPECT_NE(first[1], first[2]);
  EXPECT_EQ(run(), first);
  EXPECT_NEAR((first[0] + first[1] + first[2]) / 3, 300, 40);
}

// A number that is none is a result like any other, and no step after it waits for anything.
TEST(XlaStep, KeepsNumbersThatAreNone) {
  const Mlp model = make_mlp();
  torch::optim::SGD optimizer(model.parameters(), 0.1);
  const auto step = xla::capture_step(optimizer, mlp_loss);
  EXPECT_TRUE(std::isnan(step(model, make_batch(6, 0).fill_(std::nan(""))).loss.item()));
  EXPECT_TRUE(std::isnan(step(model, make_batch(6, 1)).loss.item()));
  step.sync();
  EXPECT_TRUE(model.w1.isnan().all().item<bool>());
}

TEST(XlaStep, RefusesOtherDraws) {
  torch::optim::SGD optimizer(make_mlp().parameters(), 0.1);
  expect_error([&] { xla::capture_step(optimizer, mlp_loss, {.draws = "gpu"}); },
               "[step] got draws 'gpu', expected 'host' or 'device'");
}

}  // namespace
}  // namespace diptych
