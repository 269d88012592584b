// Batch and group normalization, in training and outside of it, against eager.
#include "backends/xla/xla_check.h"

namespace diptych {
namespace {

using testing::expect_lowered;

const c10::IValue kMomentum = 0.1, kEpsilon = 1e-5, kTrue = true, kFalse = false;

struct ChannelVectors {
  at::Tensor weight, bias, mean, variance;
};
ChannelVectors vectors_of(int64_t channels, at::ScalarType dtype = at::kFloat) {
  return {at::randn({channels}).to(dtype), at::randn({channels}).to(dtype), at::randn({channels}).to(dtype),
          (at::rand({channels}) + 0.5).to(dtype)};
}
c10::IValue mask_of(bool first, bool second, bool third) { return c10::List<bool>({first, second, third}); }

TEST(XlaBatchNormalization, Forward) {
  at::manual_seed(0);
  const ChannelVectors vectors = vectors_of(3);
  for (const at::IntArrayRef sizes : {at::IntArrayRef{4, 3}, {2, 3, 5}, {2, 3, 4, 5}, {2, 3, 2, 2, 3}}) {
    const at::Tensor x = at::randn(sizes) * 2 + 1;
    expect_lowered("aten._native_batch_norm_legit_functional",
                   {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance}, {kTrue, kMomentum, kEpsilon});
    expect_lowered("aten.native_batch_norm", {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance},
                   {kFalse, kMomentum, kEpsilon});
    expect_lowered("aten.native_batch_norm", {x, vectors.weight, vectors.bias, {}, {}}, {kTrue, kMomentum, kEpsilon});
    expect_lowered("aten._native_batch_norm_legit.no_stats", {x, {}, {}}, {kTrue, kMomentum, kEpsilon});
    expect_lowered("aten._native_batch_norm_legit_no_training", {x, {}, {}, vectors.mean, vectors.variance},
                   {kMomentum, kEpsilon});
  }
}

TEST(XlaBatchNormalization, Dtypes) {
  at::manual_seed(0);
  for (const auto dtype : {at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 3, 4, 4}).to(dtype);
    const ChannelVectors same = vectors_of(3, dtype), wide = vectors_of(3, dtype == at::kDouble ? dtype : at::kFloat);
    for (const auto& vectors : {same, wide}) {
      expect_lowered("aten._native_batch_norm_legit_functional",
                     {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance}, {kTrue, kMomentum, kEpsilon});
      expect_lowered("aten.native_batch_norm", {x, vectors.weight, vectors.bias, vectors.mean, vectors.variance},
                     {kFalse, kMomentum, kEpsilon});
      expect_lowered("aten.native_batch_norm", {x, vectors.weight, vectors.bias, {}, {}}, {kTrue, kMomentum, kEpsilon});
      expect_lowered("aten.native_group_norm", {x, vectors.weight, vectors.bias},
                     {c10::IValue(2), c10::IValue(3), c10::IValue(16), c10::IValue(3), kEpsilon});
    }
  }
}

TEST(XlaBatchNormalization, Gradients) {
  at::manual_seed(0);
  const ChannelVectors vectors = vectors_of(3);
  for (const at::IntArrayRef sizes : {at::IntArrayRef{4, 3}, {2, 3, 4, 5}}) {
    const at::Tensor x = at::randn(sizes) * 2 + 1, gradient = at::randn(sizes);
    const auto [y, mean, inverse] = at::native_batch_norm(x, vectors.weight, vectors.bias, {}, {}, true, 0.1, 1e-5);
    expect_lowered("aten.native_batch_norm_backward",
                   {gradient, x, vectors.weight, vectors.mean, vectors.variance, mean, inverse},
                   {kTrue, kEpsilon, mask_of(true, true, true)});
    expect_lowered("aten.native_batch_norm_backward", {gradient, x, vectors.weight, {}, {}, mean, inverse},
                   {kTrue, kEpsilon, mask_of(true, false, true)});
    expect_lowered("aten.native_batch_norm_backward",
                   {gradient, x, vectors.weight, vectors.mean, vectors.variance, at::empty({0}), at::empty({0})},
                   {kFalse, kEpsilon, mask_of(true, true, true)});
    expect_lowered("aten.native_batch_norm_backward", {gradient, x, {}, {}, {}, mean, inverse},
                   {kTrue, kEpsilon, mask_of(true, false, false)});
  }
}

TEST(XlaBatchNormalization, Groups) {
  at::manual_seed(0);
  const ChannelVectors vectors = vectors_of(6);
  for (const int64_t groups : {1, 2, 6}) {
    const at::Tensor x = at::randn({2, 6, 4, 5}) * 2 + 1, gradient = at::randn({2, 6, 4, 5});
    for (const at::Tensor& weight : {vectors.weight, at::Tensor()}) {
      const at::Tensor bias = weight.defined() ? vectors.bias : weight;
      const std::vector<Operand> shape{c10::IValue(2), c10::IValue(6), c10::IValue(20), c10::IValue(groups)};
      auto options = shape;
      options.emplace_back(kEpsilon);
      expect_lowered("aten.native_group_norm", {x, weight, bias}, options);
      const auto [y, mean, inverse] = at::native_group_norm(x, weight, bias, 2, 6, 20, groups, 1e-5);
      options.back() = mask_of(true, weight.defined(), weight.defined());
      expect_lowered("aten.native_group_norm_backward", {gradient, x, mean, inverse, weight}, options);
    }
  }
}

}  // namespace
}  // namespace diptych
