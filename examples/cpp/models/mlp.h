// A network of fully connected layers for the digits.
#pragma once
#include <cmath>
#include <vector>

#include "models/layers.h"

namespace examples {

struct Mlp {
  std::vector<Linear> layers;
  DIPTYCH_FIELDS(layers)
};

/// Layers of the given sizes, first the input's, last the number of classes.
inline Mlp make_mlp(const std::vector<int64_t>& sizes) {
  Mlp mlp;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    mlp.layers.push_back(make_linear(sizes[i], sizes[i + 1], std::sqrt(2.0 / static_cast<double>(sizes[i]))));
  }
  return mlp;
}

/// Shapes: x f32[batch, in] -> f32[batch, classes].
inline at::Tensor mlp_logits(const Mlp& mlp, at::Tensor x) {
  for (size_t i = 0; i < mlp.layers.size(); ++i) {
    x = apply(mlp.layers[i], i == 0 ? x : at::relu(x));
  }
  return x;
}

/// Shapes: x f32[batch, in], labels i64[batch] -> f32[].
inline at::Tensor mlp_loss(const Mlp& mlp, const at::Tensor& x, const at::Tensor& labels) {
  return at::cross_entropy_loss(mlp_logits(mlp, x), labels);
}

}  // namespace examples
