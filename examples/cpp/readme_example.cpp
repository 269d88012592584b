#include <diptych/diptych.h>
#include <torch/torch.h>

namespace dp = diptych;

at::Tensor loss(const at::Tensor& w, const at::Tensor& x) { return x.matmul(w).tanh().square().mean(); }

int main() {
  const auto w = torch::ones({3, 2}).requires_grad_();
  const auto x = torch::arange(12.0).reshape({4, 3}) / 10;

  const dp::Pair pair = dp::capture(loss, w, x);  // just the graphs
  std::cout.precision(4);
  std::cout << pair.forward.code() << pair.backward.code();

  const auto compiled = dp::aot_function(loss, {.partition = dp::min_cut()});
  for (int step = 0; step < 3; ++step) {
    const auto value = compiled(w, x);  // the first call captures; later ones check guards and run
    value.backward();                   // runs the captured backward graph
    std::cout << "loss " << value.item<float>() << '\n';
    w.data().sub_(w.grad(), 0.5);
    w.mutable_grad().reset();
  }
}
