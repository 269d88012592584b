// The recurrent network of the scan and checkpoint suites: h' = tanh(x W + h U + b), as a loop in eager and as
// dp::scan. python/rnn.py holds the same network.
#pragma once
#include <cmath>
#include <utility>

#include "diptych/hops/scan/scan.h"
#include "models.h"

namespace diptych::bench {

struct RnnShape {
  int64_t length, batch, hidden;
};

/// The states that the loss sums.
enum class States { kAll, kLast };

/// Returns a model with the parameters W, U, b and the first state. x is the data, and the last parameter as well if
/// the loss is of all states. An untouched x costs no memory.
inline Model rnn(const RnnShape& shape, States states, Fill fill = Fill::kValues) {
  const auto weight = [&] {
    const double deviation = 0.8 / std::sqrt(static_cast<double>(shape.hidden));
    return at::randn({shape.hidden, shape.hidden}).mul_(deviation).set_requires_grad(true);
  };
  Model model;
  model.params = {weight(), weight(), at::zeros({shape.hidden}).set_requires_grad(true),
                  at::randn({shape.batch, shape.hidden}).set_requires_grad(true)};
  model.data = {at::empty({shape.length, shape.batch, shape.hidden})};
  if (fill == Fill::kValues) model.data[0].normal_(/*mean=*/0, /*std=*/0.5);
  if (states == States::kAll) model.params.push_back(model.data[0].set_requires_grad(true));
  return model;
}

inline at::Tensor rnn_step(const Tensors& p, const at::Tensor& h, const at::Tensor& x) {
  return at::tanh(at::matmul(x, p[0]) + at::matmul(h, p[1]) + p[2]);
}

/// Runs the loop written out; returns the sum of all states, or of the last one.
inline at::Tensor rnn_in_eager(const Tensors& params, const at::Tensor& xs, States states) {
  at::Tensor h = params[3];
  Tensors all;
  for (const at::Tensor& x : xs.unbind(0)) {
    h = rnn_step(params, h, x);
    if (states == States::kAll) all.push_back(h);
  }
  return states == States::kAll ? at::stack(all).sum() : h.sum();
}

/// Computes the same by dp::scan.
inline at::Tensor rnn_by_scan(const Tensors& params, const at::Tensor& xs, States states,
                              const ScanOptions& options = {}) {
  const auto step = [&](const at::Tensor& h, const at::Tensor& x) {
    const at::Tensor next = rnn_step(params, h, x);
    return std::pair{next, states == States::kAll ? Tensors{next} : Tensors{}};
  };
  const auto [last, all] = diptych::scan(step, params[3], xs, options);
  return states == States::kAll ? all[0].sum() : last.sum();
}

}  // namespace diptych::bench
