// The smallest program that uses an installed Diptych from all sides: it parses and prints a graph, captures a
// function's pair, and differentiates a compiled function. It returns 1 if a result is not eager's.
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <diptych/diptych.h>

#include <exception>
#include <iostream>

namespace dp = diptych;

namespace {

at::Tensor tanh_times_x(const at::Tensor& x) { return x.tanh().mul(x); }

void print_a_graph() {
  const dp::Graph graph = dp::parse(R"(
graph tanh_times_x(%0 x : f32[2,3])
  %1 : f32[2,3] = aten.tanh(%0)
  %2 : f32[2,3] = aten.mul.Tensor(%1, %0)
  return (%2 y)
)");
  dp::verify(graph);
  std::cout << graph.code() << graph.table();
}

// Fails if the linker dropped the registration of the tracing kernels, which nothing names.
bool captures_a_pair(const at::Tensor& x) {
  const dp::Pair pair = dp::capture(tanh_times_x, x);
  std::cout << pair.code();
  const auto [outputs, residuals] = pair.forward_call({x});
  return at::equal(outputs[0], tanh_times_x(x)) && pair.backward_call(residuals, {at::ones({2, 3})})[0].defined();
}

bool differentiates_as_eager(const at::Tensor& x) {
  const auto gradient = [&](const auto& function) {
    const at::Tensor leaf = x.detach().requires_grad_(true);
    function(leaf).sum().backward();
    return leaf.grad();
  };
  return at::equal(gradient(dp::aot_function(tanh_times_x)), gradient(tanh_times_x));
}

}  // namespace

int main() try {
  print_a_graph();
  const at::Tensor x = at::ones({2, 3}).mul(0.5).requires_grad_(true);
  const bool pair_is_right = captures_a_pair(x), gradient_is_right = differentiates_as_eager(x);
  std::cout << std::boolalpha << "the pair gives eager's values: " << pair_is_right
            << "\nthe gradient is eager's: " << gradient_is_right << '\n';
  return pair_is_right && gradient_is_right ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
