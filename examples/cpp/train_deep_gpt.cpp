// Trains a deep GPT on the text that the repository ships, its blocks one scan (dp::scan_layers) of checkpoints.
#include "common/compiled.h"
#include "common/parameters.h"
#include "common/text_data.h"
#include "common/trainer.h"
#include "models/deep_gpt.h"
#include "models/sample.h"

using namespace examples;

int main(int argc, char** argv) {
  TrainOptions options{.name = "train_deep_gpt", .steps = 300, .batch = 8, .lr = 1e-3};
  options.data = data_path("kjv_new_testament.txt");
  DeepGptConfig config;
  GptConfig& sizes = config.sizes;
  int64_t sample_length = 200;
  const auto app = make_app("Trains a deep GPT, whose equal blocks are one scan over stacked parameters");
  add_train_options(*app, options);
  add_size_option(*app, "--block", sizes.block, "Longest sequence, in characters");
  add_size_option(*app, "--layers", sizes.layers, "Transformer blocks");
  add_size_option(*app, "--width", sizes.width, "Numbers in a token's state; a multiple of --heads");
  add_size_option(*app, "--heads", sizes.heads, "Attention heads");
  add_sample_option(*app, sample_length);

  return run_program(*app, options, argc, argv, [&] {
    check_heads("train_deep_gpt", sizes.width, sizes.heads);
    const TextData text(options.data, sizes.block);
    sizes.vocabulary = text.vocabulary();
    const auto build = [&](const std::string& backend) {
      DeepGpt gpt(config);
      Trainable trainable{named_parameters(*gpt)};
      set_loss(trainable, deep_gpt_loss, gpt, options, backend);
      trainable.evaluate = [&, gpt, loss = trainable.loss]() mutable -> std::vector<Finding> {
        const auto logits = [&gpt](const at::Tensor& tokens) { return gpt(tokens); };
        return {{"validation loss", validation_loss(text, options, loss)},
                {"sampled text", sample_text(text, logits, sizes.block, sample_length, options.seed)}};
      };
      return trainable;
    };
    const auto batch = [&](int64_t step) { return text.batch(Part::kTrain, options.seed, step, options.batch); };
    return train(options, {static_cast<double>(options.batch * sizes.block), batch, build});
  });
}
