// Trains a GPT in several processes, each on its share of the batch:
//   diptych_launch --processes 2 -- train_gpt_parallel, or torchrun --no-python --nproc_per_node 2 train_gpt_parallel.
#include <diptych/base/error.h>
#include <diptych/diptych.h>
#include <torch/optim.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "common/checkpoint.h"
#include "common/parameters.h"
#include "common/program.h"
#include "common/text_data.h"
#include "diptych/base/check.h"
#include "models/gpt.h"

namespace dp = diptych;
using namespace examples;

namespace {

struct ParallelOptions : TrainOptions {
  GptConfig gpt{.block = 128};
  double timeout = 300;
  dp::distributed::BucketOptions buckets;
};

void add_options(CLI::App& app, ParallelOptions& options) {
  app.option_defaults()->always_capture_default()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_option("--steps", options.steps, "Optimizer steps in all")->check(CLI::PositiveNumber)->group(kHowGroup);
  app.add_option("--data", options.data, "File to train on")->group(kRunGroup);
  add_size_option(app, "--batch", options.batch, "Sequences in a step of all processes together");
  app.add_option("--lr", options.lr, "Learning rate")->check(CLI::PositiveNumber)->group(kRunGroup);
  app.add_option("--seed", options.seed, "Seed of the parameters and of the batches")->group(kRunGroup);
  add_size_option(app, "--block", options.gpt.block, "Longest sequence, in characters");
  add_size_option(app, "--layers", options.gpt.layers, "Transformer blocks");
  add_size_option(app, "--width", options.gpt.width, "Numbers in a token's state; a multiple of --heads");
  add_size_option(app, "--heads", options.gpt.heads, "Attention heads");
  app.add_option("--out", options.out, "Folder of the checkpoints, which all processes see")->group(kHowGroup);
  app.add_flag("--fresh", options.fresh, "Remove the checkpoints in --out and start over")->group(kHowGroup);
  app.add_option("--checkpoint-every", options.checkpoint_every, "Steps between checkpoints")
      ->check(CLI::PositiveNumber)
      ->group(kHowGroup);
  app.add_option("--timeout", options.timeout, "Seconds that a process waits for the others")->group(kHowGroup);
  app.add_option("--bucket-bytes", options.buckets.bucket_bytes, "Gradients that travel together")->group(kHowGroup);
}

// The part of the batch that this process computes.
at::Tensor share(const at::Tensor& whole, const dp::distributed::Process& process) {
  const int64_t count = whole.size(0) / process.size();
  return whole.narrow(0, process.rank() * count, count).contiguous();
}

// All processes read the newest checkpoint, before rank 0 writes another.
void resume(const ParallelOptions& options, const dp::distributed::Process& process, const CheckpointFolder& folder,
            TrainState& state) {
  if (options.fresh && process.rank() == 0) folder.clear();
  process.barrier();
  const auto found = folder.newest();
  process.check_same("the newest checkpoint", found ? found->path.filename().string() : "none");
  if (!found) return;
  DIPTYCH_CHECK(found->options == options.run,
                "[train_gpt_parallel] the checkpoint '{}' was made with {}, and this run has {}; give the same, start "
                "over with --fresh, or choose another --out",
                found->path.string(), nlohmann::json(found->options).dump(), nlohmann::json(options.run).dump());
  restore(*found, state);
  if (process.rank() == 0) fmt::print("going on from {}\n", found->path.string());
}

int train_in_parallel(const ParallelOptions& options, GptConfig config) {
  const auto process = dp::distributed::init({.timeout = options.timeout});
  check_heads("train_gpt_parallel", config.width, config.heads);
  DIPTYCH_CHECK(options.batch % process.size() == 0,
                "[train_gpt_parallel] --batch {} does not divide by {} processes; choose a multiple", options.batch,
                process.size());
  const TextData text(options.data, config.block);
  config.vocabulary = text.vocabulary();
  torch::manual_seed(options.seed);
  const Gpt gpt = make_gpt(config);
  TrainState state;
  state.parameters = named_tensors(gpt);
  std::vector<at::Tensor> parameters;
  for (const auto& [name, tensor] : state.parameters) parameters.push_back(tensor);
  process.broadcast(parameters);

  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(options.lr).betas({0.9, 0.95}));
  state.optimizer = &optimizer;
  const CheckpointFolder folder(options.out);
  resume(options, process, folder, state);

  const auto loss_fn = dp::aot_function(gpt_loss);
  const auto reduction = std::make_shared<dp::distributed::GradientReduction>(process, parameters, options.buckets);
  const auto step = dp::capture_step(optimizer, {.max_gradient_norm = 1.0, .transform = reduction});
  while (state.step < options.steps) {
    const Batch batch = text.batch(Part::kTrain, options.seed, state.step, options.batch);
    const at::Tensor loss = loss_fn(gpt, share(batch.inputs, process), share(batch.targets, process));
    step(loss);
    const auto mean = process.all_reduce(loss).item<float>();
    DIPTYCH_CHECK(std::isfinite(mean), "[train_gpt_parallel] the loss of step {} is {}; try a smaller --lr than {}",
                  state.step + 1, mean, options.lr);
    state.losses.push_back(mean);
    state.rates.push_back(options.lr);
    ++state.step;
    if (process.rank() != 0) continue;
    fmt::print("step {} loss {:.9g}\n", state.step, mean);
    if (state.step % options.checkpoint_every == 0 || state.step == options.steps) folder.save(state, options.run);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  ParallelOptions options;
  options.name = "train_gpt_parallel";
  options.data = data_path("kjv_new_testament.txt");
  options.out = "out/train_gpt_parallel";
  CLI::App app{"Trains a GPT in the processes that diptych_launch or torchrun started, each on its share of the batch"};
  add_options(app, options);
  return run_program(app, options, argc, argv, [&] { return train_in_parallel(options, options.gpt); });
}
