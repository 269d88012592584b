// Samples of operators on images and sequences, and of linear algebra.
#include <torch/types.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include "samples/families.h"

namespace diptych::test {
namespace {

void add_structured_2d(Samples& out, const Layout& x) {
  const at::Tensor grad = f32({2, 3, 9, 7});
  out.push_back(sample("aten.upsample_bicubic2d", {x.tensor, ints({9, 7}), false}, x.name));
  out.push_back(sample("aten._upsample_bilinear2d_aa", {x.tensor, ints({9, 7}), false}, x.name));
  for (const at::Tensor& g : {grad, channels_last(grad)}) {
    out.push_back(sample("aten.upsample_nearest2d_backward", {g, ints({9, 7}), ints({2, 3, 6, 5})}));
    out.push_back(sample("aten.upsample_bilinear2d_backward", {g, ints({9, 7}), ints({2, 3, 6, 5}), false}));
  }
  out.push_back(sample("aten.pixel_unshuffle", {x.tensor.slice(3, 0, 4), 2}, x.name));
  const at::Tensor blocks = x.tensor.repeat({1, 4, 1, 1});
  out.push_back(sample("aten.pixel_shuffle", {blocks.contiguous(x.tensor.suggest_memory_format()), 2}, x.name));
}

void add_paddings(Samples& out) {
  for (const Layout& x : nonempty_layouts(f32({2, 3, 6, 5}))) {
    const auto pad = ints({1, 2, 3, 1});
    const at::Tensor grad = f32({2, 3, 10, 8});
    for (const auto& op : {"aten.reflection_pad2d", "aten.replication_pad2d"}) {
      out.push_back(sample(op, {x.tensor, pad}, x.name));
      out.push_back(sample(op + std::string("_backward"), {grad, x.tensor, pad}, x.name));
    }
    out.push_back(sample("aten.upsample_nearest2d", {x.tensor, ints({9, 7})}, x.name));
    out.push_back(sample("aten.upsample_bilinear2d", {x.tensor, ints({9, 7}), false}, x.name));
    out.push_back(sample("aten.channel_shuffle", {x.tensor, 3}, x.name));
    out.push_back(sample("aten.native_channel_shuffle", {x.tensor, 3}, x.name));
    add_structured_2d(out, x);
  }
  out.push_back(sample("aten.reflection_pad2d", {f32({3, 6, 5}), ints({1, 2, 3, 1})}, "no batch"));
  out.push_back(sample("aten.pixel_unshuffle", {f32({0, 1, 4, 4}), 2}, "no images"));
  out.push_back(sample("aten.pixel_unshuffle", {channels_last(f32({2, 0, 4, 4})), 2}, "no channels"));
  for (const Layout& x : nonempty_layouts(f32({2, 3, 4, 6, 5}))) {
    const auto pad = ints({1, 2, 3, 1, 1, 1});
    out.push_back(sample("aten.replication_pad3d", {x.tensor, pad}, x.name));
    out.push_back(sample("aten.reflection_pad3d", {x.tensor, pad}, x.name));
    out.push_back(sample("aten.reflection_pad3d_backward", {f32({2, 3, 6, 10, 8}), x.tensor, pad}, x.name));
    out.push_back(sample(
        "aten.avg_pool3d_backward",
        {f32({2, 3, 2, 3, 2}), x.tensor, ints({2, 2, 2}), ints({2, 2, 2}), ints({0, 0, 0}), false, true, c10::IValue()},
        x.name));
    out.push_back(
        sample("aten.upsample_nearest3d_backward", {x.tensor, ints({4, 6, 5}), ints({2, 3, 2, 3, 3})}, x.name));
    out.push_back(sample("aten.upsample_trilinear3d_backward",
                         {x.tensor, ints({4, 6, 5}), ints({2, 3, 2, 3, 3}), false}, x.name));
    out.push_back(sample("aten.avg_pool3d", {x.tensor, ints({2, 2, 2})}, x.name));
    out.push_back(sample("aten.adaptive_max_pool3d", {x.tensor, ints({2, 2, 2})}, x.name));
    out.push_back(sample("aten.upsample_nearest3d", {x.tensor, ints({5, 9, 7})}, x.name));
    out.push_back(sample("aten.upsample_trilinear3d", {x.tensor, ints({5, 9, 7}), false}, x.name));
    out.push_back(sample("aten.replication_pad3d_backward", {f32({2, 3, 6, 10, 8}), x.tensor, pad}, x.name));
  }
}

void add_patches(Samples& out) {
  const auto kernel = ints({3, 2}), one = ints({1, 1}), stride = ints({2, 1});
  for (const Layout& x : layouts(f32({2, 3, 6, 5}))) {
    out.push_back(sample("aten.im2col", {x.tensor, kernel, one, one, stride}, x.name));
  }
  out.push_back(sample("aten.im2col", {f32({3, 6, 5}), kernel, one, one, stride}, "no batch"));
  for (const Layout& x : nonempty_layouts(f32({2, 18, 18}))) {
    out.push_back(sample("aten.col2im", {x.tensor, ints({6, 5}), kernel, one, one, stride}, x.name));
  }
  out.push_back(sample("aten.col2im", {f32({18, 18}), ints({6, 5}), kernel, one, one, stride}, "no batch"));
}

void add_grids(Samples& out) {
  const at::Tensor grid = f32({2, 4, 7, 2});
  for (const Layout& x : nonempty_layouts(f32({2, 3, 6, 5}))) {
    for (const int64_t mode : {0, 1, 2}) {
      out.push_back(sample("aten.grid_sampler_2d", {x.tensor, grid, mode, 0, false}, x.name));
      for (const bool wants_input : {false, true}) {
        out.push_back(sample("aten.grid_sampler_2d_backward",
                             {f32({2, 3, 4, 7}), x.tensor, grid, mode, 0, false, bools({wants_input, true})}, x.name));
      }
    }
  }
  for (const Layout& x : nonempty_layouts(f32({2, 3, 4, 6, 5}))) {
    const at::Tensor volume = f32({2, 4, 7, 2, 3});
    out.push_back(sample("aten.grid_sampler_3d", {x.tensor, volume, 0, 0, false}, x.name));
    for (const bool wants_input : {false, true}) {
      out.push_back(sample("aten.grid_sampler_3d_backward",
                           {f32({2, 3, 4, 7, 2}), x.tensor, volume, 0, 0, false, bools({wants_input, true})}, x.name));
    }
  }
}

void add_distances(Samples& out) {
  for (const Layout& a : nonempty_layouts(f32({2, 5, 3}))) {
    const at::Tensor b = f32({2, 4, 3});
    for (const double p : {1.0, 2.0, 3.0}) {
      out.push_back(sample("aten._cdist_forward", {a.tensor, b, p, c10::IValue()}, a.name));
      out.push_back(sample("aten._cdist_backward",
                           {f32({2, 5, 4}), a.tensor.contiguous(), b, p, torch::rand({2, 5, 4})}, a.name));
    }
  }
  out.push_back(sample("aten._cdist_forward", {f32({1, 5, 3}), f32({4, 3}), 2.0, c10::IValue()}, "broadcast"));
  out.push_back(sample("aten._cdist_forward", {f32({0, 3}), f32({4, 3}), 2.0, c10::IValue()}, "empty"));
  for (const int64_t points : {0, 1, 4}) {
    out.push_back(sample("aten._pdist_forward", {f32({points, 3})}, std::to_string(points) + " points"));
  }
  out.push_back(sample("aten._pdist_backward", {f32({6}), f32({4, 3}), 2.0, torch::rand({6})}));
}

void add_ctc(Samples& out) {
  for (const Layout& x : nonempty_layouts(f32({6, 2, 5}))) {
    const at::Tensor log_probs = x.tensor, targets = i64({2, 3}, 4) + 1;
    const auto input_lengths = ints({6, 5}), target_lengths = ints({3, 2});
    out.push_back(sample("aten._ctc_loss", {log_probs, targets, input_lengths, target_lengths}, x.name));
    const auto [loss, alpha] = at::_ctc_loss(log_probs, targets, at::IntArrayRef({6, 5}), at::IntArrayRef({3, 2}));
    out.push_back(sample("aten._ctc_loss_backward",
                         {torch::ones({2}), log_probs, targets, input_lengths, target_lengths, loss, alpha, 0},
                         x.name));
  }
}

at::Tensor positive_definite(at::IntArrayRef sizes) {
  const at::Tensor a = f32(sizes);
  return a.matmul(a.mT()) + 3 * torch::eye(sizes.back());
}

void add_factorizations(Samples& out, const Layout& x) {
  for (const bool upper : {false, true}) {
    if (c10::Dispatcher::singleton().findSchema({"aten::cholesky", ""})) {  // up to torch 2.13
      out.push_back(sample("aten.cholesky", {x.tensor, upper}, x.name));
    }
    out.push_back(sample("aten.cholesky_inverse", {x.tensor, upper}, x.name));
    out.push_back(sample("aten._cholesky_solve_helper", {f32(x.tensor.sizes()), x.tensor, upper}, x.name));
    out.push_back(sample("aten.linalg_cholesky_ex", {x.tensor, upper}, x.name));
    for (const bool left : {false, true}) {
      out.push_back(sample("aten.linalg_solve_triangular", {x.tensor, f32(x.tensor.sizes()), upper, left}, x.name));
    }
  }
  out.push_back(sample("aten.linalg_matrix_exp", {x.tensor}, x.name));
  out.push_back(sample("aten.linalg_eig", {x.tensor}, x.name));
  out.push_back(sample("aten._linalg_eigvals", {x.tensor}, x.name));
  out.push_back(sample("aten._linalg_eigh", {x.tensor}, x.name));
  out.push_back(sample("aten.linalg_qr", {x.tensor}, x.name));
  out.push_back(sample("aten._linalg_svd", {x.tensor}, x.name));
  out.push_back(sample("aten._linalg_solve_ex", {x.tensor, f32(x.tensor.sizes())}, x.name));
}

}  // namespace

Samples layouts_spatial() {
  Samples out;
  add_paddings(out);
  add_patches(out);
  add_grids(out);
  add_distances(out);
  add_ctc(out);
  return out;
}

Samples layouts_linalg() {
  Samples out;
  for (const Layout& x : nonempty_layouts(positive_definite({2, 3, 3}))) add_factorizations(out, x);
  for (const Layout& x : nonempty_layouts(positive_definite({3, 3}))) {
    if (x.name != "expanded") add_factorizations(out, x);
  }
  for (const Layout& x : nonempty_layouts(f32({2, 5, 3}))) {
    out.push_back(sample("aten.geqrf", {x.tensor}, x.name));
    const auto [reflectors, tau] = at::geqrf(x.tensor);
    out.push_back(sample("aten.linalg_householder_product", {x.tensor, tau}, x.name));
    out.push_back(sample("aten.ormqr", {reflectors, tau, f32({2, 5, 4})}, x.name));
    out.push_back(sample("aten.addbmm", {f32({5, 4}), x.tensor, f32({2, 3, 4})}, x.name));
  }
  out.push_back(sample("aten.linalg_solve_triangular", {torch::eye(3), f32({2, 3, 4}), true, true}, "broadcast"));
  out.push_back(sample("aten.addbmm", {f32({1, 4}), f32({2, 5, 3}), f32({2, 3, 4})}, "broadcast bias"));
  out.push_back(sample("aten._int_mm", {i64({8, 16}, 9).to(at::kChar), i64({16, 8}, 9).to(at::kChar)}));
  return out;
}

}  // namespace diptych::test
