// Associative functions of several kinds, with leaves for them, and the loop that a scan of them must agree with.
#pragma once
#include "diptych/hops/associative_scan.h"
#include "testing/eager_check.h"

namespace diptych::testing {

using Combine = std::function<Tensors(const Tensors& a, const Tensors& b)>;

/// The prefixes, one call of `f` per element.
inline Tensors scan_by_loop(const Combine& f, const Tensors& xs, const AssociativeScanOptions& options = {}) {
  const int64_t length = xs.at(0).size(options.dim);
  std::vector<Tensors> ys(length);
  Tensors carry;
  for (int64_t step = 0; step < length; ++step) {
    const int64_t t = options.reverse ? length - 1 - step : step;
    Tensors element;
    for (const at::Tensor& x : xs) element.push_back(x.narrow(options.dim, t, 1));
    carry = step == 0 ? element : f(carry, element);
    ys[t] = carry;
  }
  Tensors result;
  for (size_t i = 0; i < xs.size(); ++i) {
    Tensors steps;
    for (const Tensors& y : ys) steps.push_back(y[i]);
    result.push_back(length == 0 ? xs[i].clone() : at::cat(steps, options.dim));
  }
  return result;
}

/// A function that is associative, and how the leaves of one element look.
struct AssociativeOperator {
  std::string name;
  Combine f;
  std::vector<std::vector<int64_t>> leaves;  ///< sizes without the scanned dimension
  bool takes_any_dim = true;                 ///< else the first one only
};

/// Composition of x -> scale * x + shift, which is what a linear recurrence is made of. It does not commute.
inline AssociativeOperator affine_operator() {
  const auto f = [](const Tensors& a, const Tensors& b) -> Tensors { return {a[0] * b[0], b[0] * a[1] + b[1]}; };
  return {"affine", f, {{3}, {3}}};
}

inline std::vector<AssociativeOperator> associative_operators() {
  const auto broadcast_affine = [](const Tensors& a, const Tensors& b) -> Tensors {
    return {a[0] * b[0], b[0].unsqueeze(-1) * a[1] + b[1]};
  };
  return {
      {"sum", [](const Tensors& a, const Tensors& b) -> Tensors { return {a[0] + b[0]}; }, {{3}}},
      {"product", [](const Tensors& a, const Tensors& b) -> Tensors { return {a[0] * b[0]}; }, {{2, 3}}},
      {"maximum", [](const Tensors& a, const Tensors& b) -> Tensors { return {at::maximum(a[0], b[0])}; }, {{4}}},
      {"first", [](const Tensors& a, const Tensors&) -> Tensors { return a; }, {{2}}},
      {"last", [](const Tensors&, const Tensors& b) -> Tensors { return b; }, {{2}}},
      affine_operator(),
      {"affine of other shapes", broadcast_affine, {{2}, {2, 3}}, /*takes_any_dim=*/false},
      {"matrix product",
       [](const Tensors& a, const Tensors& b) -> Tensors { return {at::bmm(a[0], b[0])}; },
       {{2, 2}},
       /*takes_any_dim=*/false},
      {"logaddexp", [](const Tensors& a, const Tensors& b) -> Tensors { return {at::logaddexp(a[0], b[0])}; }, {{3}}},
  };
}

/// Leaves of `length` elements along `dim`, float64, normal around 0.
inline Tensors random_elements(const AssociativeOperator& op, int64_t length, int64_t dim) {
  Tensors xs;
  for (std::vector<int64_t> sizes : op.leaves) {
    const auto at = dim < 0 ? static_cast<int64_t>(sizes.size()) + 1 + dim : dim;
    sizes.insert(sizes.begin() + at, length);
    xs.push_back(torch::randn(sizes, torch::kFloat64));
  }
  return xs;
}

}  // namespace diptych::testing
