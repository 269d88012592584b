// Calls by Diptych and the same in eager, for tests of what transforms do to them.
#pragma once
#include "testing/values.h"

namespace diptych::testing {

inline std::pair<at::Tensor, at::Tensor> cell(const at::Tensor& carry, const at::Tensor& x) {
  const at::Tensor next = (carry * x).tanh();
  return {next, next * 2};
}

inline at::Tensor loop_of_cell(const at::Tensor& x) {
  at::Tensor carry = x[0];
  Tensors ys;
  for (int64_t i = 0; i < x.size(0); ++i) {
    auto [next, y] = cell(carry, x[i]);
    carry = next;
    ys.push_back(y);
  }
  return carry.sum() + torch::stack(ys).sin().sum();
}

/// A call by Diptych and the same in eager.
struct Case {
  std::string name;
  std::function<at::Tensor(const at::Tensor&)> ours, eager;
};

inline std::vector<Case> cases() {
  static const at::Tensor w = values({3, 4}, 2);
  const auto body = [](const at::Tensor& x) { return (x.sin() * w).sum(); };
  const auto by_scan = [](const at::Tensor& x) {
    const auto [carry, ys] = scan(cell, at::Tensor(x[0]), x);
    return carry.sum() + ys.sin().sum();
  };
  const auto twice = [](const at::Tensor& x) { return x * 2; };
  return {
      {"aot_function", aot_function(body), body},
      {"scan", by_scan, loop_of_cell},
      {"aot_function of scan", aot_function(by_scan), loop_of_cell},
      {"map",
       [](const at::Tensor& x) { return map([](const at::Tensor& row) { return row.sin() * row.sum(); }, x).sum(); },
       [](const at::Tensor& x) { return (x.sin() * x.sum(1, true)).sum(); }},
      {"cond",
       [body](const at::Tensor& x) {
         return cond(
             torch::tensor(true), body, [](const at::Tensor& y) { return y.sum(); }, x);
       },
       body},
      {"while_loop",
       [twice](const at::Tensor& x) {
         return while_loop([](const at::Tensor& c) { return c.abs().sum() < 40; }, twice, x).sin().sum();
       },
       [](const at::Tensor& x) {
         at::Tensor carry = x;
         while ((carry.abs().sum() < 40).item<bool>()) carry = carry * 2;
         return carry.sin().sum();
       }},
      {"checkpoint", checkpoint(body), body},
      {"associative_scan",
       [](const at::Tensor& x) {
         return associative_scan([](const at::Tensor& a, const at::Tensor& b) { return a * b; }, x).sum();
       },
       [](const at::Tensor& x) { return x.cumprod(0).sum(); }},
  };
}

inline void expect_close(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_TRUE(wanted.defined());
  EXPECT_TRUE(same_tensor(got, wanted, {.rtol = 1e-5, .atol = 1e-6}));
}

}  // namespace diptych::testing
