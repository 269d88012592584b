// Layers as plain structs of tensors, which Diptych sees through their field lists.
#pragma once
#include <diptych/tree/fields.h>
#include <torch/types.h>

namespace examples {

/// A tensor that is trained.
inline at::Tensor parameter(at::Tensor value) { return value.detach().requires_grad_(); }

struct Linear {
  at::Tensor weight, bias;  ///< f32[out, in], f32[out]
  DIPTYCH_FIELDS(weight, bias)
};

/// Weights are normal with the given spread, biases zero.
inline Linear make_linear(int64_t in, int64_t out, double spread) {
  return {parameter(at::randn({out, in}) * spread), parameter(at::zeros({out}))};
}

inline at::Tensor apply(const Linear& layer, const at::Tensor& x) { return at::linear(x, layer.weight, layer.bias); }

struct Norm {
  at::Tensor weight, bias;  ///< f32[width]
  DIPTYCH_FIELDS(weight, bias)
};

inline Norm make_norm(int64_t width) { return {parameter(at::ones({width})), parameter(at::zeros({width}))}; }

inline at::Tensor apply(const Norm& norm, const at::Tensor& x) {
  return at::layer_norm(x, norm.weight.sizes(), norm.weight, norm.bias);
}

}  // namespace examples
