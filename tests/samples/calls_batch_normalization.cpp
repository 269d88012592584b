// Batch and group normalization, in training and outside of it, against eager.
#include <ATen/ATen.h>

#include "samples/families.h"

namespace diptych::test {
namespace batch_normalization_calls {
namespace {

const c10::IValue kMomentum = 0.1, kEpsilon = 1e-5, kTrue = true, kFalse = false;

struct ChannelVectors {
  at::Tensor weight, bias, mean, variance;
};
ChannelVectors vectors_of(int64_t channels, at::ScalarType dtype = at::kFloat) {
  return {at::randn({channels}).to(dtype), at::randn({channels}).to(dtype), at::randn({channels}).to(dtype),
          (at::rand({channels}) + 0.5).to(dtype)};
}
c10::IValue mask_of(bool first, bool second, bool third) { return c10::List<bool>({first, second, third}); }

void forward(Samples& out) {
  const ChannelVectors vectors = vectors_of(3);
  for (const auto& sizes : {std::vector<int64_t>{4, 3}, {2, 3, 5}, {2, 3, 4, 5}, {2, 3, 2, 2, 3}}) {
    const at::Tensor x = at::randn(sizes) * 2 + 1;
    add(out, "aten._native_batch_norm_legit_functional",
        {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance}, {kTrue, kMomentum, kEpsilon});
    add(out, "aten.native_batch_norm", {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance},
        {kFalse, kMomentum, kEpsilon});
    add(out, "aten.native_batch_norm", {x, vectors.weight, vectors.bias, {}, {}}, {kTrue, kMomentum, kEpsilon});
    add(out, "aten._native_batch_norm_legit.no_stats", {x, {}, {}}, {kTrue, kMomentum, kEpsilon});
    add(out, "aten._native_batch_norm_legit_no_training", {x, {}, {}, vectors.mean, vectors.variance},
        {kMomentum, kEpsilon});
  }
}

void dtypes(Samples& out) {
  for (const auto dtype : {at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 3, 4, 4}).to(dtype);
    const ChannelVectors same = vectors_of(3, dtype), wide = vectors_of(3, dtype == at::kDouble ? dtype : at::kFloat);
    for (const auto& vectors : {same, wide}) {
      add(out, "aten._native_batch_norm_legit_functional",
          {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance}, {kTrue, kMomentum, kEpsilon});
      add(out, "aten.native_batch_norm", {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance},
          {kFalse, kMomentum, kEpsilon});
      add(out, "aten.native_batch_norm", {x, vectors.weight, vectors.bias, {}, {}}, {kTrue, kMomentum, kEpsilon});
      add(out, "aten.native_group_norm", {x, vectors.weight, vectors.bias},
          {c10::IValue(2), c10::IValue(3), c10::IValue(16), c10::IValue(3), kEpsilon});
    }
  }
}

void gradients(Samples& out) {
  const ChannelVectors vectors = vectors_of(3);
  for (const auto& sizes : {std::vector<int64_t>{4, 3}, {2, 3, 4, 5}}) {
    const at::Tensor x = at::randn(sizes) * 2 + 1, gradient = at::randn(sizes);
    const auto [y, mean, inverse] = at::native_batch_norm(x, vectors.weight, vectors.bias, {}, {}, true, 0.1, 1e-5);
    add(out, "aten.native_batch_norm_backward",
        {gradient, x, vectors.weight, vectors.mean, vectors.variance, mean, inverse},
        {kTrue, kEpsilon, mask_of(true, true, true)});
    add(out, "aten.native_batch_norm_backward", {gradient, x, vectors.weight, {}, {}, mean, inverse},
        {kTrue, kEpsilon, mask_of(true, false, true)});
    add(out, "aten.native_batch_norm_backward",
        {gradient, x, vectors.weight, vectors.mean, vectors.variance, at::empty({0}), at::empty({0})},
        {kFalse, kEpsilon, mask_of(true, true, true)});
    add(out, "aten.native_batch_norm_backward", {gradient, x, {}, {}, {}, mean, inverse},
        {kTrue, kEpsilon, mask_of(true, false, false)});
  }
}

void groups(Samples& out) {
  const ChannelVectors vectors = vectors_of(6);
  for (const int64_t groups : {1, 2, 6}) {
    const at::Tensor x = at::randn({2, 6, 4, 5}) * 2 + 1, gradient = at::randn({2, 6, 4, 5});
    for (const at::Tensor& weight : {vectors.weight, at::Tensor()}) {
      const at::Tensor bias = weight.defined() ? vectors.bias : weight;
      const std::vector<c10::IValue> shape{c10::IValue(2), c10::IValue(6), c10::IValue(20), c10::IValue(groups)};
      auto options = shape;
      options.emplace_back(kEpsilon);
      add(out, "aten.native_group_norm", {x, weight, bias}, options);
      const auto [y, mean, inverse] = at::native_group_norm(x, weight, bias, 2, 6, 20, groups, 1e-5);
      options.back() = mask_of(true, weight.defined(), weight.defined());
      add(out, "aten.native_group_norm_backward", {gradient, x, mean, inverse, weight}, options);
    }
  }
}

}  // namespace
}  // namespace batch_normalization_calls

Samples calls_batch_normalization() {
  using namespace batch_normalization_calls;
  Samples out;
  forward(out);
  dtypes(out);
  gradients(out);
  groups(out);
  return out;
}

}  // namespace diptych::test
