// Trains a recurrent language model, its time steps a dp::scan, on the text that the repository ships.
#include "common/compiled.h"
#include "common/parameters.h"
#include "common/text_data.h"
#include "common/trainer.h"
#include "models/rnn.h"
#include "models/sample.h"

using namespace examples;

int main(int argc, char** argv) {
  TrainOptions options{.name = "train_rnn", .steps = 600, .batch = 32, .lr = 3e-3, .weight_decay = 0.01};
  options.data = data_path("kjv_new_testament.txt");
  RnnConfig config;
  int64_t block = 64, sample_length = 300;
  const auto app = make_app("Trains a recurrent network to continue a text, one token a character");
  add_train_options(*app, options);
  add_size_option(*app, "--block", block, "Time steps that a gradient goes through, in characters");
  add_size_option(*app, "--width", config.width, "Numbers in the state");
  add_sample_option(*app, sample_length);

  return run_program(*app, options, argc, argv, [&] {
    const TextData text(options.data, block);
    config.vocabulary = text.vocabulary();
    const auto build = [&](const std::string& backend) {
      const Rnn rnn = make_rnn(config);
      Trainable trainable{named_tensors(rnn)};
      set_loss(trainable, rnn_loss, rnn, options, backend);
      trainable.evaluate = [&, rnn, loss = trainable.loss]() -> std::vector<Finding> {
        const auto logits = [&rnn](const at::Tensor& tokens) { return rnn_logits(rnn, tokens); };
        return {{"validation loss", validation_loss(text, options, loss)},
                {"sampled text", sample_text(text, logits, block, sample_length, options.seed)}};
      };
      return trainable;
    };
    const auto batch = [&](int64_t step) { return text.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch * block), batch, build});
  });
}
