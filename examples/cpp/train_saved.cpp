// Goes on with a training run that Python saved, or begins one that Python goes on with: `train_saved --help`. No
// Python is in this program. examples/python/train_gpt.py is the same program, and says what is in the files.
#include <ATen/CPUGeneratorImpl.h>
#include <diptych/base/error.h>
#include <diptych/diptych.h>
#include <diptych/pair/pair_call.h>
#include <diptych/pair/pair_parameters.h>

#include <CLI/CLI.hpp>

#include "common/parameters.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/text_data.h"
#include "diptych/base/check.h"
#include "models/gpt.h"

using namespace examples;
namespace dp = diptych;
using Tensors = std::vector<at::Tensor>;

namespace {

constexpr double kLr = 1e-3, kWeightDecay = 0.1, kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-8;
constexpr int64_t kStride = 530'063;  // between windows: a prime far from any fraction of the text, so that they spread
constexpr int64_t kNewBatch = 4;
const GptConfig kNewGpt{.block = 64, .layers = 2, .width = 64, .heads = 4};

/// Inputs and targets, i64[count, block], as a function of the step alone; the last tenth of the text is left out.
Batch batch_of(const at::Tensor& text, int64_t step, int64_t count, int64_t block) {
  Tensors windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = (step * count + i) * kStride % (text.size(0) - text.size(0) / 10 - block);
    windows.push_back(text.slice(0, start, start + block + 1));
  }
  const at::Tensor all = at::stack(windows);
  return {all.slice(1, 0, block).contiguous(), all.slice(1, 1, block + 1).contiguous()};
}

at::Tensor random_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

/// A pair of a loss with what it is trained on. What is trained is among the tensors of the file.
class Run {
 public:
  Run(dp::Pair pair, dp::NamedTensors tensors)
      : pair_(std::move(pair)),
        tensors_(std::move(tensors)),
        parameters_(dp::tensors_of_argument(pair_.signature, "params", tensors_, "params.")),
        exp_avg_(dp::tensors_of_argument(pair_.signature, "params", tensors_, "exp_avg.")),
        exp_avg_sq_(dp::tensors_of_argument(pair_.signature, "params", tensors_, "exp_avg_sq.")),
        loss_([this](const Tensors& arguments) { return dp::call_pair(pair_, arguments)[0]; },
              {.name = "train_saved"}) {
    for (const char* name : {"step", "random_state"}) {
      DIPTYCH_CHECK(tensors_.count(name) > 0,
                    "[train_saved] the file has no tensor '{}'; pass a file of a training run", name);
    }
    const size_t n = parameters_.size();
    DIPTYCH_CHECK(pair_.signature.index_of_input("tokens") == n && pair_.signature.index_of_input("targets") == n + 1,
                  "[train_saved] the pair takes other inputs than params, tokens and targets:\n{}",
                  pair_.signature.str());
    for (const at::Tensor& parameter : parameters_) parameter.requires_grad_();
    set_random_state(tensors_["random_state"]);  // dropout draws from it
  }
  Run(const Run&) = delete;  // the loss knows where the pair is
  Run& operator=(const Run&) = delete;

  int64_t steps_done() const { return tensors_.at("step").item<int64_t>(); }
  void save(const std::string& path) {
    tensors_["random_state"] = random_state();
    dp::save_with_tensors(pair_, tensors_, path);
  }

  /// Does one step; returns its loss.
  float step(const at::Tensor& text) {
    const auto sizes = pair_.signature.forward_inputs().back().meta->size_hints();
    const int64_t done = steps_done();
    const Batch batch = batch_of(text, done, sizes[0], sizes[1]);
    Tensors arguments = parameters_;
    arguments.insert(arguments.end(), {batch.inputs, batch.targets});
    const at::Tensor loss = loss_(arguments);
    const auto gradients = torch::autograd::grad({loss}, parameters_);
    update(gradients, done + 1);
    tensors_["step"] += 1;
    return loss.item<float>();
  }

 private:
  /// AdamW, in the order of operations that train_gpt.py has: the bits are to be the same.
  void update(const Tensors& gradients, int64_t step) {
    const torch::NoGradGuard no_grad;
    const auto power = static_cast<double>(step);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      exp_avg_[i].mul_(kBeta1).add_(gradients[i], 1 - kBeta1);
      exp_avg_sq_[i].mul_(kBeta2).addcmul_(gradients[i], gradients[i], 1 - kBeta2);
      const at::Tensor denominator = exp_avg_sq_[i].sqrt().div_(std::sqrt(1 - std::pow(kBeta2, power))).add_(kEps);
      parameters_[i].mul_(1 - kLr * kWeightDecay);
      parameters_[i].addcdiv_(exp_avg_[i], denominator, -kLr / (1 - std::pow(kBeta1, power)));
    }
  }

  dp::Pair pair_;
  dp::NamedTensors tensors_;
  Tensors parameters_, exp_avg_, exp_avg_sq_;
  dp::Aot<std::function<at::Tensor(const Tensors&)>> loss_;
};

std::unique_ptr<Run> new_run(const at::Tensor& text, GptConfig config) {
  torch::manual_seed(1);
  const Gpt gpt = make_gpt(config);
  const Batch batch = batch_of(text, 0, kNewBatch, config.block);
  dp::Pair pair = dp::capture_with({.argument_names = {"params", "tokens", "targets"}, .name = "capture"}, gpt_loss,
                                   gpt, batch.inputs, batch.targets);
  dp::NamedTensors tensors{{"step", torch::tensor(int64_t{0})}, {"random_state", random_state()}};
  for (const auto& [name, tensor] : named_tensors(gpt)) {
    tensors["params." + name] = tensor.detach();
    for (const char* moment : {"exp_avg.", "exp_avg_sq."}) tensors[moment + name] = at::zeros_like(tensor);
  }
  return std::make_unique<Run>(std::move(pair), std::move(tensors));
}

std::unique_ptr<Run> load_run(const std::string& path) {
  auto [pair, tensors] = dp::load_with_tensors(path);
  return std::make_unique<Run>(std::move(pair), std::move(tensors));
}

}  // namespace

int main(int argc, char** argv) {
  TrainOptions options{.name = "train_saved", .steps = 100, .data = data_path("kjv_new_testament.txt")};
  std::string load, save;
  CLI::App app{"Goes on with a training run that is saved, from Python or from here, or begins one"};
  app.add_option("--steps", options.steps, "Steps to do now")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--load", load, "Go on with the run of FILE and FILE.safetensors; without it, begin one");
  app.add_option("--save", save, "Write the run to FILE and FILE.safetensors");
  app.add_option("--data", options.data, "Text to train on");
  return run_program(app, options, argc, argv, [&] {
    const TextData data(options.data, kNewGpt.block);
    const at::Tensor text = data.encode(read_file(options.data, "train_saved"));
    GptConfig config = kNewGpt;
    config.vocabulary = data.vocabulary();
    const auto run = load.empty() ? new_run(text, config) : load_run(load);
    const int64_t done = run->steps_done(), end = done + options.steps;
    {
      Progress progress("train_saved", done, end, 1, "steps");
      while (run->steps_done() < end) {
        const float loss = run->step(text);
        fmt::print("step {} loss {:.9g}\n", run->steps_done(), loss);
        progress.update(run->steps_done(), loss);
      }
    }
    if (!save.empty()) run->save(save);
    return 0;
  });
}
