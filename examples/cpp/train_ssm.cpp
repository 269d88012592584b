// Trains a selective state-space language model on the text that the repository ships.
#include "common/compiled.h"
#include "common/parameters.h"
#include "common/text_data.h"
#include "common/trainer.h"
#include "models/sample.h"
#include "models/ssm.h"

using namespace examples;

int main(int argc, char** argv) {
  TrainOptions options{.name = "train_ssm", .steps = 600, .batch = 16, .lr = 3e-3, .weight_decay = 0.01};
  options.data = data_path("kjv_new_testament.txt");
  SsmConfig config;
  int64_t block = 128, sample_length = 300;
  const auto app = make_app("Trains a selective state-space model to continue a text, one token a character");
  add_train_options(*app, options);
  add_size_option(*app, "--block", block, "Time steps that a gradient goes through, in characters");
  add_size_option(*app, "--layers", config.layers, "Layers");
  add_size_option(*app, "--width", config.width,
                  "Numbers between the layers; within one there are twice as many channels");
  add_size_option(*app, "--states", config.states, "Numbers that each channel keeps");
  add_sample_option(*app, sample_length);

  return run_program(*app, options, argc, argv, [&] {
    const TextData text(options.data, block);
    config.vocabulary = text.vocabulary();
    const auto build = [&](const std::string& backend) {
      const Ssm ssm = make_ssm(config);
      Trainable trainable{named_tensors(ssm)};
      set_loss(trainable, ssm_loss, ssm, options, backend);
      trainable.evaluate = [&, ssm, loss = trainable.loss]() -> std::vector<Finding> {
        const auto logits = [&ssm](const at::Tensor& tokens) { return ssm_logits(ssm, tokens); };
        return {{"validation loss", validation_loss(text, options, loss)},
                {"sampled text", sample_text(text, logits, block, sample_length, options.seed)}};
      };
      return trainable;
    };
    const auto batch = [&](int64_t step) { return text.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch * block), batch, build});
  });
}
