// A loop that stays a loop in the graph: smoothing a sequence, with a gradient for the weight that the loop captures.
#include <diptych/diptych.h>
#include <torch/types.h>

#include <iostream>

namespace dp = diptych;

int main() {
  const auto keep = torch::full({}, 0.5).requires_grad_();
  // Takes the carry and one slice of the sequence; returns a std::pair of the next carry and this step's output.
  const auto smooth = [&](const at::Tensor& average, const at::Tensor& x) {
    const at::Tensor next = keep * average + (1 - keep) * x;
    return std::pair(next, next);
  };

  const auto [last, averages] = dp::scan(smooth, torch::zeros({}), torch::arange(1.0, 5.0));
  averages.sum().backward();
  std::cout << averages << "\nlast " << last.item<float>() << ", gradient " << keep.grad().item<float>() << '\n';
}
