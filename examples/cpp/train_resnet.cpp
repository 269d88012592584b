// Trains a ResNet-18 with BatchNorm on the handwritten digits, upscaled to 32x32.
#include "common/compiled.h"
#include "common/digits_data.h"
#include "common/parameters.h"
#include "common/trainer.h"
#include "models/resnet.h"

using namespace examples;

int main(int argc, char** argv) {
  TrainOptions options{
      .name = "train_resnet", .unit = "images", .steps = 100, .batch = 32, .lr = 1e-3, .weight_decay = 0.05};
  options.data = data_path("digits.csv");
  int64_t width = 64;
  const auto app = make_app("Trains a ResNet-18 to read handwritten digits, upscaled to 32x32");
  add_train_options(*app, options);
  add_size_option(*app, "--width", width, "Channels of the first stage; the paper has 64");

  return run_program(*app, options, argc, argv, [&] {
    const DigitsData digits(options.data);
    const auto build = [&](const std::string& backend) {
      ResNet18 resnet(/*channels=*/1, width, /*classes=*/10);
      Trainable trainable{named_parameters(*resnet), named_buffers(*resnet)};
      set_loss(trainable, resnet_loss, resnet, options, backend);
      trainable.evaluate = [&digits, resnet]() mutable {
        resnet->eval();
        return std::vector{digits_accuracy(digits, [&](const at::Tensor& x) { return resnet(upscaled(x)); })};
      };
      return trainable;
    };
    const auto batch = [&](int64_t step) { return digits.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch), batch, build});
  });
}
