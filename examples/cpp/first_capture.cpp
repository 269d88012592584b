// The shortest capture: a function, its arguments, and both graphs as text.
#include <diptych/diptych.h>
#include <torch/types.h>

#include <iostream>

int main() {
  const auto w = torch::ones({3, 2}).requires_grad_();
  const auto x = torch::ones({4, 3});
  const auto pair = diptych::capture([](const auto& w, const auto& x) { return x.matmul(w).tanh().sum(); }, w, x);
  std::cout << pair.code() << '\n' << pair.signature << '\n' << pair.explain();
}
