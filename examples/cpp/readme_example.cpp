#include <diptych/diptych.h>
#include <torch/types.h>

#include <iostream>

int main() {
  const auto loss = [](const at::Tensor& w, const at::Tensor& x) { return x.matmul(w).tanh().mean(); };
  const auto w = torch::ones({3, 2}).requires_grad_(), x = torch::ones({4, 3});
  std::cout << diptych::capture(loss, w, x).code();   // both graphs as text; nothing is computed
  const auto compiled = diptych::aot_function(loss);  // called like loss: captures once, then runs the graphs
  compiled(w, x).backward();                          // the backward is the captured backward graph
  std::cout << w.grad() << '\n';
}
