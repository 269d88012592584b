// Calls of one function with many sizes, each compared with eager.
#pragma once
#include "testing/eager_check.h"

namespace diptych::testing {

struct Counted {
  double worst = 0;  ///< absolute difference of values and gradients
  CacheStats stats;
};

// Calls with inputs of these sizes, each compared with eager to the first order.
template <class F>
Counted compare(const F& function, const std::vector<std::vector<std::vector<int64_t>>>& calls,
                AotOptions options = {}) {
  options.dynamic = true;
  const auto aot = aot_function(function, options);
  Counted counted;
  const auto run = [](const auto& f, const Tensors& inputs) {
    Tensors seen = f(inputs);
    at::Tensor total;
    for (const at::Tensor& output : seen) {
      const at::Tensor term = output.square().sum();
      total = total.defined() ? total + term : term;
    }
    for (const at::Tensor& gradient : torch::autograd::grad({total}, inputs, {}, {}, false, true)) {
      seen.push_back(gradient);
    }
    return seen;
  };
  for (const auto& sizes : calls) {
    Tensors inputs;
    for (const auto& size : sizes) inputs.push_back(torch::randn(size, torch::kFloat64).requires_grad_());
    const Tensors expected = run(function, inputs), got = run(aot, inputs);
    EXPECT_EQ(expected.size(), got.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(expected[i].defined(), got[i].defined()) << i;
      if (!got[i].defined()) continue;
      EXPECT_EQ(expected[i].sizes(), got[i].sizes()) << i;
      EXPECT_EQ(expected[i].strides(), got[i].strides()) << i;
      if (got[i].numel() > 0)
        counted.worst = std::max(counted.worst, (expected[i] - got[i]).abs().max().item<double>());
    }
  }
  counted.stats = aot.stats();
  return counted;
}

// Sizes of one dimension, each twice.
inline std::vector<std::vector<std::vector<int64_t>>> lengths(int64_t first, int64_t last) {
  std::vector<std::vector<std::vector<int64_t>>> calls;
  for (int64_t n = first; n <= last; ++n) calls.push_back({{n, 3}});
  for (int64_t n = last; n >= first; --n) calls.push_back({{n, 3}});
  return calls;
}

}  // namespace diptych::testing
