// Whole training steps as XLA programs whose state stays on the device.
#include <torch/optim/adamw.h>

#include <array>
#include <stdexcept>

#include "diptych/diptych.h"
#include "gradient_case.h"
#include "suites.h"

namespace diptych::bench {
namespace {

constexpr std::array kTrained{"mlp", "gpt", "gpt2", "resnet18"};

/// A step with AdamW, up to its loss. The first one, which captures and compiles, is compared with eager's.
class TrainingCase {
 public:
  explicit TrainingCase(std::string name) : name_(std::move(name)) {}

  Reply operator()(int repeat) {
    if (!step_) prepare();
    return {timed(repeat, [&] { (*step_)(model_->params, model_->buffers, model_->data).loss.item(); }),
            {{"state_bytes", step_->state_bytes()}}};
  }

 private:
  using Loss = std::function<at::Tensor(const Tensors&, const Tensors&, const Tensors&)>;

  void prepare() {
    model_ = make_model(name_, Fill::kValues);
    Tensors buffers;
    for (const at::Tensor& buffer : model_->buffers) buffers.push_back(buffer.clone());
    const double expected = model_->loss(model_->params, buffers, model_->data)[0].item<double>();
    optimizer_ = std::make_unique<torch::optim::AdamW>(model_->params, torch::optim::AdamWOptions(1e-4));
    const Loss loss = [loss = model_->loss](const Tensors& p, const Tensors& b, const Tensors& d) {
      return loss(p, b, d)[0];
    };
    step_.emplace(xla::capture_step(*optimizer_, loss, {.name = name_}));
    const double got = (*step_)(model_->params, model_->buffers, model_->data).loss.item();
    if (!(std::abs(got - expected) <= 1e-3 * std::abs(expected)))
      throw std::runtime_error(name_ + ": the loss of a step is not what eager gives");
  }

  std::string name_;
  std::optional<Model> model_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::optional<xla::Step<Loss>> step_;
};

}  // namespace

void add_xla_training(Cases& cases) {
  for (const std::string name : kTrained) {
    cases["xla/train/" + name] = [made = std::make_shared<TrainingCase>(name)](int repeat) { return (*made)(repeat); };
  }
}

}  // namespace diptych::bench
