// Samples of losses, pools and random operators.
#include <torch/types.h>

#include <limits>

#include "samples/families.h"

namespace diptych::test {
namespace {

void add_elementwise_losses(Samples& out, const Layout& x, int64_t reduction) {
  const at::Tensor p = x.tensor.sigmoid(), target = torch::rand(x.tensor.sizes(), x.tensor.dtype());
  const at::Tensor grad =
      reduction == 0 ? torch::ones(x.tensor.sizes(), x.tensor.dtype()) : torch::ones({}, x.tensor.dtype());
  const at::Tensor self = p.as_strided(x.tensor.sizes(), p.strides());
  out.push_back(sample("aten.binary_cross_entropy", {self, target, kNone, reduction}, x.name));
  out.push_back(sample("aten.binary_cross_entropy_backward", {grad, self, target, kNone, reduction}, x.name));
  out.push_back(sample("aten.mse_loss", {x.tensor, target, reduction}, x.name));
  out.push_back(sample("aten.mse_loss_backward", {grad, x.tensor, target, reduction}, x.name));
  out.push_back(sample("aten.smooth_l1_loss", {x.tensor, target, reduction, 1.0}, x.name));
  out.push_back(sample("aten.smooth_l1_loss_backward", {grad, x.tensor, target, reduction, 1.0}, x.name));
  out.push_back(sample("aten.huber_loss", {x.tensor, target, reduction, 1.0}, x.name));
  out.push_back(sample("aten.huber_loss_backward", {grad, x.tensor, target, reduction, 1.0}, x.name));
}

// Two shapes, as LibTorch's binary_cross_entropy() passes them, and two dtypes.
void add_unlike_losses(Samples& out, int64_t reduction) {
  const at::Tensor column = torch::rand({6, 1}), flat = torch::rand({6}), wide = f64({6}),
                   half = f32({6}).to(at::kBFloat16);
  const at::Tensor grad = reduction == 0 ? torch::ones({6, 1}) : torch::ones({});
  for (const at::Tensor& target : {flat, column.t().contiguous(), torch::rand({1})}) {
    out.push_back(sample("aten.binary_cross_entropy", {column, target, kNone, reduction}, "columns"));
    out.push_back(sample("aten.binary_cross_entropy", {column, target, column, reduction}, "columns with weights"));
    out.push_back(sample("aten.binary_cross_entropy_backward", {grad, column, target, kNone, reduction}, "columns"));
  }
  for (const auto& [self, target] : {std::pair{flat, wide}, {wide, flat}, {half, flat}, {flat, half}}) {
    const at::Tensor g = reduction == 0 ? torch::ones({6}) : torch::ones({});
    out.push_back(sample("aten.mse_loss", {self, target, reduction}, "two dtypes"));
    out.push_back(sample("aten.mse_loss_backward", {g, self, target, reduction}, "two dtypes"));
    out.push_back(sample("aten.smooth_l1_loss", {self, target, reduction, 0.5}, "two dtypes"));
    out.push_back(sample("aten.smooth_l1_loss_backward", {g, self, target, reduction, 0.5}, "two dtypes"));
    out.push_back(sample("aten.huber_loss", {self, target, reduction, 0.5}, "two dtypes"));
  }
}

void add_class_losses(Samples& out, int64_t reduction) {
  for (const Layout& x : nonempty_layouts(f32({6, 4}))) {
    const at::Tensor target = i64({6}, 4);
    const at::Tensor grad = reduction == 0 ? torch::ones({6}) : torch::ones({});
    out.push_back(sample("aten.nll_loss_forward", {x.tensor, target, kNone, reduction, -100}, x.name));
    out.push_back(
        sample("aten.nll_loss_backward", {grad, x.tensor, target, kNone, reduction, -100, torch::ones({})}, x.name));
    out.push_back(sample("aten.multi_margin_loss", {x.tensor, target, 1, 1, kNone, reduction}, x.name));
    out.push_back(sample("aten.multi_margin_loss_backward", {grad, x.tensor, target, 1, 1, kNone, reduction}, x.name));
    const at::Tensor labels = torch::tensor({0, 2, -1, -1}, at::kLong).repeat({6, 1});
    out.push_back(sample("aten.multilabel_margin_loss_forward", {x.tensor, labels, reduction}, x.name));
    out.push_back(sample("aten.multilabel_margin_loss_backward",
                         {grad, x.tensor, labels, reduction, torch::zeros({6, 4})}, x.name));
  }
  out.push_back(sample("aten.nll_loss_forward", {f32({4}), torch::tensor(1), kNone, reduction, -100}, "one sample"));
  out.push_back(sample("aten.multi_margin_loss", {f32({4}), torch::tensor(1), 1, 1, kNone, reduction}, "one sample"));
  out.push_back(sample("aten.multilabel_margin_loss_forward",
                       {f32({4}), torch::tensor({0, 2, -1, -1}, at::kLong), reduction}, "one sample"));
  for (const Layout& x : nonempty_layouts(f32({2, 4, 3, 5}))) {
    const at::Tensor target = i64({2, 3, 5}, 4);
    const at::Tensor grad = reduction == 0 ? torch::ones({2, 3, 5}) : torch::ones({});
    out.push_back(sample("aten.nll_loss2d_forward", {x.tensor, target, torch::ones({4}), reduction, -100}, x.name));
    out.push_back(sample("aten.nll_loss2d_backward",  // the kernel takes only contiguous inputs
                         {grad, x.tensor.contiguous(), target, kNone, reduction, -100, torch::ones({})}, x.name));
  }
}

void add_pools_3d(Samples& out) {
  for (const Layout& x : nonempty_layouts(f32({2, 3, 6, 7, 8}))) {
    out.push_back(sample("aten._adaptive_avg_pool3d", {x.tensor, ints({2, 3, 4})}, x.name));
    out.push_back(sample("aten._adaptive_avg_pool3d_backward", {f32({2, 3, 2, 3, 4}), x.tensor}, x.name));
    const std::vector<c10::IValue> settings = {x.tensor, ints({3}), ints({2}), ints({1}), ints({1}), true};
    out.push_back(sample("aten.max_pool3d_with_indices", settings, x.name));
    const auto [y, indices] = at::max_pool3d_with_indices(x.tensor, {3}, {2}, {1}, {1}, true);
    out.push_back(sample("aten.max_pool3d_with_indices_backward",
                         {torch::ones_like(y), x.tensor, ints({3}), ints({2}), ints({1}), ints({1}), true, indices},
                         x.name));
  }
  out.push_back(sample("aten.max_pool3d_with_indices", {f32({3, 6, 7, 8}), ints({2, 3, 1})}, "no batch"));
  const at::Tensor indices = torch::arange(8, at::kLong).view({1, 1, 2, 2, 2});
  out.push_back(
      sample("aten.max_unpool3d", {f32({1, 1, 2, 2, 2}), indices, ints({4, 4, 4}), ints({2, 2, 2}), ints({0, 0, 0})}));
}

}  // namespace

Samples layouts_loss() {
  Samples out;
  for (const int64_t reduction : {0, 1, 2}) {
    for (const Layout& x : layouts(f32({4, 3, 5}))) add_elementwise_losses(out, x, reduction);
    for (const Layout& x : layouts(f32({2, 3, 4, 5}))) add_elementwise_losses(out, x, reduction);
    add_elementwise_losses(out, {f64({4, 3}), "f64"}, reduction);
    add_unlike_losses(out, reduction);
    add_class_losses(out, reduction);
  }
  return out;
}

Samples layouts_pool() {
  Samples out;
  for (const Layout& x : nonempty_layouts(f32({2, 3, 8, 7}))) {
    out.push_back(sample("aten._adaptive_avg_pool2d", {x.tensor, ints({3, 2})}, x.name));
    out.push_back(sample("aten._adaptive_avg_pool2d_backward", {f32({2, 3, 3, 2}), x.tensor}, x.name));
    out.push_back(sample("aten.max_pool2d_with_indices", {x.tensor, ints({3, 3}), ints({2, 2}), ints({1, 1})}, x.name));
    const auto [y, indices] = at::max_pool2d_with_indices(x.tensor, {3, 3}, {2, 2}, {1, 1});
    out.push_back(
        sample("aten.max_pool2d_with_indices_backward",
               {torch::ones_like(y), x.tensor, ints({3, 3}), ints({2, 2}), ints({1, 1}), ints({1, 1}), false, indices},
               x.name));
    out.push_back(sample("aten.avg_pool2d", {x.tensor, ints({2, 2})}, x.name));
    out.push_back(sample("aten.avg_pool2d_backward",
                         {f32({2, 3, 4, 3}), x.tensor, ints({2, 2}), ints({2, 2}), ints({0, 0}), false, true, kNone},
                         x.name));
    out.push_back(sample("aten.adaptive_max_pool2d", {x.tensor, ints({3, 2})}, x.name));
  }
  out.push_back(sample("aten._adaptive_avg_pool2d", {f32({3, 8, 7}), ints({1, 1})}, "no batch"));
  out.push_back(sample("aten._adaptive_avg_pool2d", {channels_last(f32({2, 3, 8, 7})), ints({1, 1})}, "to one"));
  const at::Tensor indices = torch::arange(4, at::kLong).view({1, 1, 2, 2});
  out.push_back(sample("aten.max_unpool2d", {f32({1, 1, 2, 2}), indices, ints({4, 4})}));
  add_pools_3d(out);
  return out;
}

Samples layouts_random() {
  Samples out;
  for (const Layout& x : layouts(torch::rand({4, 3, 5}))) {
    for (const bool train : {false, true}) out.push_back(sample("aten.native_dropout", {x.tensor, 0.5, train}, x.name));
    out.push_back(sample("aten.native_dropout_backward", {x.tensor, x.tensor.gt(0.5), 2.0}, x.name));
    out.push_back(sample("aten.bernoulli", {x.tensor}, x.name));
    out.push_back(sample("aten.bernoulli.p", {x.tensor, 0.5}, x.name));
    out.push_back(sample("aten.poisson", {x.tensor}, x.name));
    out.push_back(sample("aten.binomial", {x.tensor, x.tensor}, x.name));
    out.push_back(sample("aten._standard_gamma", {x.tensor + 1}, x.name));
    out.push_back(sample("aten._standard_gamma_grad", {x.tensor, x.tensor}, x.name));
    out.push_back(sample("aten._sample_dirichlet", {x.tensor + 1}, x.name));
    out.push_back(sample("aten._dirichlet_grad", {x.tensor, x.tensor, x.tensor}, x.name));
    for (const bool train : {false, true}) {
      out.push_back(sample("aten.rrelu_with_noise", {x.tensor, torch::zeros_like(x.tensor), 0.1, 0.3, train}, x.name));
      out.push_back(
          sample("aten.rrelu_with_noise_functional", {x.tensor, torch::zeros_like(x.tensor), 0.1, 0.3, train}, x.name));
    }
    out.push_back(sample("aten.rand_like", {x.tensor}, x.name));
    out.push_back(sample("aten.normal_functional", {x.tensor}, x.name));
    out.push_back(sample("aten.uniform", {x.tensor}, x.name));
  }
  for (const Layout& p : nonempty_layouts(torch::rand({4, 6}))) {
    out.push_back(sample("aten.multinomial", {p.tensor, 3}, p.name));
    out.push_back(sample("aten.multinomial", {p.tensor, 1, true}, p.name));
  }
  out.push_back(sample("aten.multinomial", {torch::rand({6}), 2}, "vector"));
  const auto start = at::scalar_tensor(1.5), stop = at::scalar_tensor(4);
  for (const c10::IValue& dtype : {kNone, c10::IValue(at::kDouble)}) {
    out.push_back(sample("aten.linspace.Tensor_Tensor", {start, stop, 5, dtype}));
    out.push_back(sample("aten.linspace.Tensor_Scalar", {start, 4.0, 5, dtype}));
    out.push_back(sample("aten.linspace.Scalar_Tensor", {1.5, stop, 0, dtype}));
    out.push_back(sample("aten.logspace.Tensor_Tensor", {start, stop, 5, 2.0, dtype}));
    out.push_back(sample("aten.logspace.Tensor_Scalar", {start, 4.0, 1, 10.0, dtype}));
    out.push_back(sample("aten.logspace.Scalar_Tensor", {1.5, stop, 5, 2.0, dtype}));
  }
  for (const c10::IValue& dtype : {kNone, c10::IValue(at::kInt), c10::IValue(at::kFloat)}) {
    out.push_back(sample("aten.arange", {5, dtype}));
    out.push_back(sample("aten.arange.start", {2, 9, dtype}));
    for (const int64_t step : {1, 2, 3, 7, 8}) {
      out.push_back(sample("aten.arange.start_step", {2, 9, step, dtype}));
      out.push_back(sample("aten.arange.start_step", {9, 2, -step, dtype}));
    }
    out.push_back(sample("aten.full", {ints({2, 0, 3}), 1.5, dtype}));
  }
  out.push_back(sample("aten.arange.start_step", {0.5, 2.0, 0.25}));
  out.push_back(
      sample("aten.arange.start_step", {0, 10, std::numeric_limits<int64_t>::max(), at::kFloat}, "long step"));
  out.push_back(sample("aten.randperm", {7}));
  out.push_back(sample("aten.randperm.generator", {7, kNone}));
  out.push_back(sample("aten.randperm", {7, at::kInt}, "i32"));
  return out;
}

}  // namespace diptych::test
