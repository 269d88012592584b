// The training loop: a resumed run goes on exactly as an uninterrupted one, and the schedule is what it says.
#include "common/trainer.h"

#include <diptych/base/error.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <cmath>

#include "common/digits_data.h"
#include "common/parameters.h"
#include "common/text_data.h"
#include "examples/temporary_folder.h"
#include "models/gpt.h"
#include "models/lstm.h"
#include "models/mlp.h"
#include "models/resnet.h"
#include "testing/expect_error.h"

namespace examples {
namespace {

using diptych::testing::expect_error;

TrainOptions small_options() {
  TrainOptions options{.name = "test", .steps = 12, .batch = 4, .lr = 1e-2};
  options.backend = "eager";
  options.run = {{"--lr", "0.01"}, {"--width", "16"}};
  return options;
}

// A task on the digits with BatchNorm (buffers) and dropout (random numbers).
Task digits_task(const TrainOptions& options, const DigitsData& digits) {
  Task task;
  task.batch = [&](int64_t step) { return digits.batch(Part::kTrain, options.seed, step, options.batch); };
  task.build = [](const std::string&) {
    torch::nn::Sequential net(torch::nn::Linear(64, 16), torch::nn::BatchNorm1d(16), torch::nn::Dropout(0.3),
                              torch::nn::ReLU(), torch::nn::Linear(16, 10));
    return Trainable{named_parameters(*net), named_buffers(*net), [net](const Batch& batch) mutable {
                       return at::cross_entropy_loss(net->forward(batch.inputs), batch.targets);
                     }};
  };
  return task;
}

std::vector<float> losses_of(TrainRun& run, int64_t steps) {
  while (run.state().step < steps) run.step();
  return run.state().losses;
}

void save_after(int64_t steps, const TrainOptions& options, const Task& task, const CheckpointFolder& checkpoints) {
  TrainRun run(options, task, "eager");
  losses_of(run, steps);
  checkpoints.save(run.state(), options.run);
}

TEST(Trainer, ResumedRunHasTheSameLossesAsAnUninterruptedOne) {
  const DigitsData digits(data_path("digits.csv"));
  const TrainOptions options = small_options();
  const Task task = digits_task(options, digits);
  TrainRun whole(options, task, "eager");
  const auto expected = losses_of(whole, options.steps);
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  save_after(5, options, task, checkpoints);
  torch::manual_seed(99);
  TrainRun second(options, task, "eager");
  second.resume(*checkpoints.newest());
  EXPECT_EQ(second.state().step, 5);
  EXPECT_EQ(losses_of(second, options.steps), expected);
  for (size_t i = 0; i < whole.state().buffers.size(); ++i) {
    EXPECT_TRUE(at::equal(whole.state().buffers[i].second, second.state().buffers[i].second));
  }
}

// Its first steps have the rates of a schedule that was for fewer steps; eager, which repeats them, needs these.
TEST(Trainer, ResumedForMoreStepsKeepsTheRatesOfThoseDone) {
  const DigitsData digits(data_path("digits.csv"));
  TrainOptions options = small_options();
  const Task task = digits_task(options, digits);
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  save_after(5, options, task, checkpoints);
  options.steps *= 3;
  TrainRun second(options, task, "eager");
  second.resume(*checkpoints.newest());
  const auto expected = losses_of(second, options.steps);
  EXPECT_NE(second.state().rates[1], learning_rate(options, 1));
  TrainRun repeated(options, task, "eager");
  for (const double rate : second.state().rates) repeated.step(rate);
  EXPECT_EQ(repeated.state().losses, expected);
}

TEST(Trainer, SameSeedSameLossesOtherSeedOthers) {
  const DigitsData digits(data_path("digits.csv"));
  TrainOptions options = small_options();
  const Task task = digits_task(options, digits);
  TrainRun one(options, task, "eager");
  const auto expected = losses_of(one, 3);
  TrainRun two(options, task, "eager");
  EXPECT_EQ(losses_of(two, 3), expected);
  options.seed = 2;
  TrainRun three(options, task, "eager");
  EXPECT_NE(losses_of(three, 3), expected);
}

TEST(Trainer, RefusesACheckpointOfOtherOptions) {
  const DigitsData digits(data_path("digits.csv"));
  TrainOptions options = small_options();
  const Task task = digits_task(options, digits);
  TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path());
  save_after(1, options, task, checkpoints);
  TrainRun run(options, task, "eager");
  options.run["--width"] = "32";
  expect_error([&] { run.resume(*checkpoints.newest()); }, "was made with --width 16, and this run has 32");
}

TEST(Trainer, SaysAtWhichStepTheLossBroke) {
  TrainOptions options = small_options();
  const at::Tensor weight = at::ones({1}).requires_grad_();
  Task task;
  task.batch = [](int64_t) { return Batch{at::full({1}, -1.0), {}}; };
  task.build = [&](const std::string&) {
    return Trainable{{{"w", weight}}, {}, [&](const Batch& batch) { return (weight * batch.inputs).log().sum(); }};
  };
  TrainRun run(options, task, "eager");
  expect_error([&] { run.step(); }, "the loss of step 1 is nan; try a smaller --lr");
}

TEST(Trainer, LearningRateWarmsUpAndFallsToATenth) {
  TrainOptions options = small_options();
  options.steps = 1000;
  EXPECT_NEAR(learning_rate(options, 0), options.lr / 50, 1e-9);
  EXPECT_NEAR(learning_rate(options, 49), options.lr, 1e-9);
  EXPECT_NEAR(learning_rate(options, 999), options.lr / 10, 1e-6);
  for (int64_t step = 50; step < 999; ++step) EXPECT_GT(learning_rate(options, step), learning_rate(options, step + 1));
  options.steps = 1;
  EXPECT_TRUE(std::isfinite(learning_rate(options, 0)));
}

TEST(Models, GptSeesNoLaterToken) {
  torch::manual_seed(1);
  const Gpt gpt = make_gpt({.vocabulary = 11, .block = 8, .layers = 2, .width = 12, .heads = 3});
  at::Tensor tokens = at::randint(11, {2, 8}, at::kLong);
  const at::Tensor before = gpt_logits(gpt, tokens).detach();
  tokens.select(1, 5).copy_((tokens.select(1, 5) + 1) % 11);
  const at::Tensor after = gpt_logits(gpt, tokens).detach();
  EXPECT_TRUE(at::allclose(before.slice(1, 0, 5), after.slice(1, 0, 5)));
  EXPECT_FALSE(at::allclose(before.slice(1, 5), after.slice(1, 5)));
}

TEST(Models, GptOfTheDefaultSizeHasTheExpectedParameters) {
  int64_t count = 0;
  for (const auto& [name, tensor] : named_tensors(make_gpt({.vocabulary = 73, .block = 128}))) count += tensor.numel();
  const int64_t block = 12 * 384 * 384 + 13 * 384;  // four matrices, their biases, two norms
  EXPECT_EQ(count, (73 + 128) * 384 + 6 * block + 2 * 384);
}

TEST(Models, NamesAreDiptychsPaths) {
  const Gpt gpt = make_gpt({.vocabulary = 3, .block = 4, .layers = 1, .width = 4, .heads = 1});
  const auto tensors = named_tensors(gpt);
  EXPECT_EQ(tensors.front().first, "tokens");
  EXPECT_EQ(tensors[4].first, "blocks.0.query_key_value.weight");
}

// The cell, written out, against torch's own LSTM with the same weights.
TEST(Models, LstmAgreesWithTorch) {
  torch::manual_seed(1);
  const Lstm ours = make_lstm({.vocabulary = 7, .width = 6});
  torch::nn::LSTM theirs(torch::nn::LSTMOptions(6, 6).batch_first(true));
  torch::NoGradGuard no_grad;
  auto weights = theirs->named_parameters();
  weights["weight_ih_l0"].copy_(ours.from_input.weight);
  weights["bias_ih_l0"].copy_(ours.from_input.bias);
  weights["weight_hh_l0"].copy_(ours.from_state.weight);
  weights["bias_hh_l0"].copy_(ours.from_state.bias);
  const at::Tensor tokens = at::randint(7, {3, 9}, at::kLong);
  const at::Tensor states = std::get<0>(theirs->forward(at::embedding(ours.tokens, tokens)));
  EXPECT_TRUE(at::allclose(lstm_logits(ours, tokens), apply(ours.head, states), 1e-5, 1e-6));
}

TEST(Models, ResNet18HasTheExpectedParametersAndLearns) {
  torch::manual_seed(1);
  ResNet18 full(1, 64, 10);
  int64_t count = 0;
  for (const auto& parameter : full->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 11'172'810);  // 11,173,962 for three input channels, less 2 * 9 * 64
  ResNet18 small(1, 4, 10);
  torch::optim::AdamW optimizer(small->parameters(), torch::optim::AdamWOptions(1e-2));
  const at::Tensor x = at::randn({8, 1, 32, 32}), labels = at::arange(8);
  double first = 0, last = 0;
  for (int i = 0; i < 15; ++i) {
    optimizer.zero_grad();
    const at::Tensor loss = at::cross_entropy_loss(small(x), labels);
    loss.backward();
    optimizer.step();
    (i == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 2);
}

TEST(Models, MlpIsAStackOfLayersWithReluBetween) {
  torch::manual_seed(1);
  const Mlp mlp = make_mlp({4, 5, 3});
  const at::Tensor x = at::randn({2, 4});
  const at::Tensor hidden = at::relu(at::linear(x, mlp.layers[0].weight, mlp.layers[0].bias));
  EXPECT_TRUE(at::equal(mlp_logits(mlp, x), at::linear(hidden, mlp.layers[1].weight, mlp.layers[1].bias)));
}

}  // namespace
}  // namespace examples
