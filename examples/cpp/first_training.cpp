// A training loop: a torch::nn module learns the sine, by a function that is compiled ahead of its backward.
#include <diptych/diptych.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <cstdio>

namespace dp = diptych;

int main() {
  torch::manual_seed(0);
  const torch::nn::Linear first(1, 32), last(32, 1);
  const torch::nn::Sequential net(first, torch::nn::Tanh(), last);
  torch::optim::Adam optimizer(net->parameters(), 0.02);
  const auto loss = dp::aot_function([](torch::nn::Sequential net, const at::Tensor& x,
                                        const at::Tensor& y) { return torch::mse_loss(net->forward(x), y); },
                                     {.argument_names = {"net", "x", "y"}});

  for (int step = 0; step <= 200; ++step) {
    const at::Tensor x = torch::rand({64, 1}) * 6 - 3;
    const at::Tensor value = loss(net, x, x.sin());  // the first call captures; later ones check guards and run
    optimizer.zero_grad();
    value.backward();  // runs the captured backward graph
    optimizer.step();
    if (step % 100 == 0) std::printf("step %d: loss %.2f\n", step, value.item<double>());
  }
  std::printf("%zu capture, %zu runs of it\n", loss.stats().misses, loss.stats().hits);

  const at::Tensor few = torch::zeros({10, 1});
  (void)loss(net, few, few);
  std::printf("captured again: %s\n", loss.stats().last_miss.c_str());
}
