// Trains a network of three fully connected layers on the handwritten digits.
#include "common/compiled.h"
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
  const auto app = make_app("Trains a three-layer network to read 8x8 handwritten digits");
  add_train_options(*app, options);
  add_size_option(*app, "--width", width, "Numbers in each hidden layer");

  return run_program(*app, options, argc, argv, [&] {
    const DigitsData digits(options.data);
    const auto build = [&](const std::string& backend) {
      const Mlp mlp = make_mlp({64, width, width, 10});
      Trainable trainable{named_tensors(mlp)};
      set_loss(trainable, mlp_loss, mlp, options, backend);
      trainable.evaluate = [&digits, mlp] {
        return std::vector{digits_accuracy(digits, [&](const at::Tensor& x) { return mlp_logits(mlp, x); })};
      };
      return trainable;
    };
    const auto batch = [&](int64_t step) { return digits.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch), batch, build});
  });
}
