// A training step as one XLA program, whose parameters stay on the device until sync().
#include <diptych/diptych.h>
#include <torch/optim/adamw.h>

#include <iostream>

namespace dp = diptych;

struct Model {
  at::Tensor w1, w2;
  DIPTYCH_FIELDS(w1, w2)
};

at::Tensor loss_of(const Model& model, const at::Tensor& x) {
  return (x.mm(model.w1).tanh().mm(model.w2) - x.sum(1, true)).square().mean();
}

int main() {
  torch::manual_seed(1);
  const Model model{torch::randn({4, 8}).requires_grad_(), torch::randn({8, 1}).requires_grad_()};
  torch::optim::AdamW optimizer({model.w1, model.w2}, 0.05);
  const auto x = torch::randn({64, 4});
  std::cout << "the loss falls: ";
  const double before = loss_of(model, x).item<double>();
  {
    const auto step = dp::xla::capture_step(optimizer, loss_of, {.max_gradient_norm = 1.0});
    dp::xla::StepResult last;
    for (int i = 0; i < 100; ++i) last = step(model, x);
    std::cout << (last.loss.item() < before / 10) << ", programs: " << step.num_programs();
    step.sync();
  }
  std::cout << ", and the host has it: " << (loss_of(model, x).item<double>() < before / 10) << '\n';
}
