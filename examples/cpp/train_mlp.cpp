// Trains a network of three fully connected layers on the handwritten digits.
#include "common/digits_data.h"
#include "common/parameters.h"
#include "common/trainer.h"
#include "models/mlp.h"

using namespace examples;

int main(int argc, char** argv) {
  TrainOptions options{
      .name = "train_mlp", .unit = "images", .steps = 1000, .batch = 64, .lr = 2e-3, .weight_decay = 0.01};
  options.data = data_path("digits.csv");
  int64_t width = 128;
  CLI::App app{"Trains a three-layer network to read 8x8 handwritten digits"};
  add_train_options(app, options);
  add_size_option(app, "--width", width, "Numbers in each hidden layer");

  return run_program(app, options, argc, argv, [&] {
    const DigitsData digits(options.data);
    const auto build = [&](const std::string& backend) {
      const auto mlp = std::make_shared<const Mlp>(make_mlp({64, width, width, 10}));
      const auto loss = [mlp](const Batch& batch) { return mlp_loss(*mlp, batch.inputs, batch.targets); };
      const auto evaluate = [&digits, mlp]() -> std::vector<Finding> {
        return {digits_accuracy(digits, [mlp](const at::Tensor& x) { return mlp_logits(*mlp, x); })};
      };
      return Trainable{named_tensors(*mlp), {}, loss, evaluate};
    };
    const auto batch = [&](int64_t step) { return digits.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch), batch, build});
  });
}
