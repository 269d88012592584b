// Trains a GPT on the text that the repository ships: `make train`, or `train_gpt --help`.
#include "common/compiled.h"
#include "common/parameters.h"
#include "common/text_data.h"
#include "common/trainer.h"
#include "models/gpt.h"
#include "models/sample.h"

using namespace examples;

int main(int argc, char** argv) {
  TrainOptions options{.name = "train_gpt", .steps = 1000, .batch = 8, .lr = 1e-3};
  options.data = data_path("kjv_new_testament.txt");
  options.compare_eager = 100;
  GptConfig config{.block = 128};
  int64_t sample_length = 400;
  const auto app = make_app("Trains a GPT to continue a text, one token a character");
  add_train_options(*app, options);
  add_size_option(*app, "--block", config.block, "Longest sequence, in characters");
  add_size_option(*app, "--layers", config.layers, "Transformer blocks");
  add_size_option(*app, "--width", config.width, "Numbers in a token's state; a multiple of --heads");
  add_size_option(*app, "--heads", config.heads, "Attention heads");
  add_sample_option(*app, sample_length);

  return run_program(*app, options, argc, argv, [&] {
    check_heads("train_gpt", config.width, config.heads);
    const TextData text(options.data, config.block);
    config.vocabulary = text.vocabulary();
    const auto build = [&](const std::string& backend) {
      const Gpt gpt = make_gpt(config);
      Trainable trainable{named_tensors(gpt)};
      set_loss(trainable, gpt_loss, gpt, options, backend);
      trainable.evaluate = [&, gpt, loss = trainable.loss]() -> std::vector<Finding> {
        const auto logits = [&gpt](const at::Tensor& tokens) { return gpt_logits(gpt, tokens); };
        return {{"validation loss", validation_loss(text, options, loss)},
                {"sampled text", sample_text(text, logits, config.block, sample_length, options.seed)}};
      };
      return trainable;
    };
    const auto batch = [&](int64_t step) { return text.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch * config.block), batch, build});
  });
}
