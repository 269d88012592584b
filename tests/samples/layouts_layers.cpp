// Samples of the operators that neural networks are made of: embeddings, norms, attention, convolutions, LSTM layers.
#include <torch/types.h>

#include "samples/families.h"

namespace diptych::test {
namespace {

void add_bags(Samples& out) {
  for (const int64_t mode : {0, 1, 2}) {
    for (const bool last_offset : {false, true}) {
      for (const bool weighted : {false, true}) {
        if (weighted && mode != 0) continue;
        const at::Tensor weight = f32({10, 4}), indices = i64({7}, 10), offsets = torch::tensor({0, 3, 5}, at::kLong);
        const c10::IValue weights = weighted ? c10::IValue(f32({7})) : kNone;
        const std::string note = "mode " + std::to_string(mode);
        for (const auto& op : {"aten._embedding_bag", "aten._embedding_bag_forward_only"}) {
          out.push_back(sample(op, {weight, indices, offsets, false, mode, false, weights, last_offset}, note));
          out.push_back(sample(op,
                               {f64({10, 4}), indices, offsets, false, mode, false,
                                weighted ? c10::IValue(f64({7})) : kNone, last_offset},
                               note + " f64"));
        }
      }
    }
    const at::Tensor weight = f32({10, 4}), indices = i64({7}, 10), offsets = torch::tensor({0, 3, 5}, at::kLong);
    const auto [result, bag, size, max] = at::_embedding_bag(weight, indices, offsets, false, mode);
    const at::Tensor full_bag = torch::tensor({0, 0, 0, 1, 1, 2, 2}, at::kLong);
    out.push_back(sample("aten._embedding_bag_dense_backward",
                         {f32({3, 4}), indices, full_bag, size, max, 10, false, mode, kNone}));
    if (mode == 0) {
      out.push_back(sample("aten._embedding_bag_per_sample_weights_backward",
                           {f32({3, 4}), weight, indices, offsets, full_bag, mode}));
    }
  }
}

void add_batch_norms(Samples& out, const Layout& x, bool training, bool affine) {
  const int64_t channels = x.tensor.size(1);
  const auto dtype = x.tensor.scalar_type() == at::kBFloat16 ? at::kFloat : x.tensor.scalar_type();
  const auto vector = [&] { return torch::ones({channels}, dtype); };
  const c10::IValue weight = affine ? c10::IValue(vector()) : kNone, bias = affine ? c10::IValue(vector()) : kNone;
  const std::string note = x.name + (training ? ", training" : ", evaluating") + (affine ? ", affine" : "");
  out.push_back(
      sample("aten.native_batch_norm", {x.tensor, weight, bias, vector(), vector(), training, 0.1, 1e-5}, note));
  out.push_back(
      sample("aten._native_batch_norm_legit", {x.tensor, weight, bias, vector(), vector(), training, 0.1, 1e-5}, note));
  out.push_back(sample("aten._native_batch_norm_legit_functional",
                       {x.tensor, weight, bias, vector(), vector(), training, 0.1, 1e-5}, note));
  if (training) {
    out.push_back(sample("aten.native_batch_norm", {x.tensor, weight, bias, kNone, kNone, true, 0.1, 1e-5}, note));
    out.push_back(sample("aten._native_batch_norm_legit.no_stats", {x.tensor, weight, bias, true, 0.1, 1e-5}, note));
    out.push_back(
        sample("aten._batch_norm_with_update", {x.tensor, weight, bias, vector(), vector(), 0.1, 1e-5}, note));
  } else {
    out.push_back(sample("aten._native_batch_norm_legit_no_training",
                         {x.tensor, weight, bias, vector(), vector(), 0.1, 1e-5}, note));
  }
  for (const auto& mask :
       std::vector<std::vector<bool>>{{true, true, true}, {true, false, false}, {false, true, true}}) {
    const c10::IValue grad = f32(x.tensor.sizes()).to(x.tensor.scalar_type());
    out.push_back(sample("aten.native_batch_norm_backward",
                         {grad, x.tensor, weight, vector(), vector(), vector(), vector(), training, 1e-5, bools(mask)},
                         note));
    if (affine) {
      out.push_back(sample("aten.batch_norm_backward",
                           {grad, x.tensor, weight, vector(), vector(), vector(), vector(), training, 1e-5, bools(mask),
                            torch::empty({0}, at::kByte)},
                           note));
    }
  }
}

void add_layer_norms(Samples& out, const Layout& x, bool affine) {
  const auto shape = std::vector<int64_t>{x.tensor.size(-1)};
  const c10::IValue weight = affine ? c10::IValue(torch::ones(shape)) : kNone;
  const c10::IValue bias = affine ? c10::IValue(torch::ones(shape)) : kNone;
  out.push_back(sample("aten.native_layer_norm", {x.tensor, ints(shape), weight, bias, 1e-5}, x.name));
  if (x.tensor.scalar_type() != at::kFloat) return;
  const auto [y, mean, rstd] = at::native_layer_norm(x.tensor, shape, {}, {}, 1e-5);
  for (const auto& mask : std::vector<std::vector<bool>>{{true, affine, affine}, {false, affine, false}}) {
    out.push_back(sample("aten.native_layer_norm_backward",
                         {f32(x.tensor.sizes()), x.tensor, ints(shape), mean, rstd, weight, bias, bools(mask)},
                         x.name));
  }
}

void add_group_norms(Samples& out, const Layout& x, bool affine) {
  const auto& t = x.tensor;
  const int64_t n = t.size(0), c = t.size(1), rest = c * n == 0 ? 1 : t.numel() / (n * c);
  const c10::IValue weight = affine ? c10::IValue(torch::ones({c})) : kNone;
  out.push_back(sample("aten.native_group_norm", {t, weight, weight, n, c, rest, 2, 1e-5}, x.name));
  if (t.scalar_type() != at::kFloat) return;
  for (const auto& mask : std::vector<std::vector<bool>>{{true, affine, affine}, {false, affine, false}}) {
    if (!mask[0] && !t.is_contiguous()) continue;  // the channels-last kernel crashes without a gradient to write to
    const at::Tensor stats = torch::ones({n, 2});
    out.push_back(sample(
        "aten.native_group_norm_backward",
        {f32(t.sizes()).contiguous(t.suggest_memory_format()), t, stats, stats, weight, n, c, rest, 2, bools(mask)},
        x.name));
  }
}

struct Convolution {
  at::Tensor input, weight;
  std::vector<int64_t> stride = {1, 1}, padding = {0, 0}, dilation = {1, 1};
  bool transposed = false;
  std::vector<int64_t> output_padding = {0, 0};
  int64_t groups = 1;
};

void add_convolution(Samples& out, const Convolution& c, const std::string& note) {
  const int64_t channels = c.transposed ? c.weight.size(1) * c.groups : c.weight.size(0);
  const at::Tensor bias = torch::ones({channels}, c.weight.dtype());
  for (const c10::IValue& b : {c10::IValue(bias), kNone}) {
    out.push_back(sample(
        "aten.convolution",
        {c.input, c.weight, b, c.stride, c.padding, c.dilation, c.transposed, c.output_padding, c.groups}, note));
  }
  const at::Tensor grad = torch::ones_like(at::convolution(c.input, c.weight, {}, c.stride, c.padding, c.dilation,
                                                           c.transposed, c.output_padding, c.groups));
  for (const auto& mask :
       std::vector<std::vector<bool>>{{true, true, true}, {false, true, false}, {true, false, false}}) {
    out.push_back(sample("aten.convolution_backward",
                         {grad, c.input, c.weight, std::vector<int64_t>{channels}, c.stride, c.padding, c.dilation,
                          c.transposed, c.output_padding, c.groups, bools(mask)},
                         note));
  }
}

void add_convolutions_2d(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const Layout& x : layouts(f32({2, 4, 9, 7}).to(dtype))) {
      for (const bool weight_last : {false, true}) {
        at::Tensor weight = f32({6, 4, 3, 3}).to(dtype);
        if (weight_last) weight = channels_last(weight);
        const std::string note = x.name + (weight_last ? ", weight channels last" : "") + toString(dtype);
        add_convolution(out, {x.tensor, weight, {1, 1}, {1, 1}}, note);
        add_convolution(out, {x.tensor, weight, {2, 2}, {1, 0}, {2, 1}}, note + " dilated");
      }
      add_convolution(out, {x.tensor, f32({6, 2, 3, 3}).to(dtype), {1}, {1}, {1}, false, {0}, 2}, x.name + " groups");
      add_convolution(out, {x.tensor, f32({4, 1, 3, 3}).to(dtype), {1}, {1}, {1}, false, {0}, 4},
                      x.name + " depthwise");
      add_convolution(out, {x.tensor, f32({6, 4, 1, 1}).to(dtype)}, x.name + " 1x1");
      add_convolution(out, {x.tensor, f32({4, 6, 3, 3}).to(dtype), {2, 2}, {1, 1}, {1, 1}, true, {1, 1}},
                      x.name + " transposed" + toString(dtype));
    }
  }
  for (const int64_t batch : {1, 2, 16}) {
    for (const auto dtype : {at::kFloat, at::kDouble}) {
      const at::Tensor x = channels_last(f32({batch, 4, 9, 7}).to(dtype));
      const std::string note = "batch of " + std::to_string(batch) + toString(dtype);
      add_convolution(out, {x, f32({6, 4, 1, 1}).to(dtype)}, note + ", 1x1");
      add_convolution(out, {x, channels_last(f32({6, 4, 1, 1}).to(dtype))}, note + ", 1x1 channels last");
      add_convolution(out, {x, f32({4, 1, 3, 3}).to(dtype), {1, 1}, {0, 0}, {1, 1}, true, {0, 0}, 4},
                      note + ", depthwise");
      add_convolution(out, {x, f32({4, 4, 9, 7}).to(dtype)}, note + ", output 1x1");
      add_convolution(out, {channels_last(f32({batch, 1, 8, 8}).to(dtype)), f32({4, 1, 3, 3}).to(dtype)},
                      note + ", C=1");
    }
  }
  add_convolution(out, {f32({1, 3, 8, 8}), f32({4, 3, 3, 3}), {1, 1}, {1, 1}}, "batch of one");
  add_convolution(out, {f32({2, 1, 8, 8}), f32({4, 1, 3, 3}), {2, 2}, {1, 1}}, "one channel");
  add_convolution(out, {f32({2, 4, 3, 3}), f32({4, 4, 3, 3})}, "output 1x1");
}

}  // namespace

Samples layouts_embedding() {
  Samples out;
  for (const Layout& indices : layouts(i64({3, 5}, 10))) {
    for (const Layout& weight : nonempty_layouts(f32({10, 4}))) {
      out.push_back(sample("aten.embedding", {weight.tensor, indices.tensor, 2}, indices.name + ", " + weight.name));
    }
    auto sizes = indices.tensor.sizes().vec();
    sizes.push_back(4);
    out.push_back(sample("aten.embedding_dense_backward", {f32(sizes), indices.tensor, 10, -1, false}, indices.name));
  }
  out.push_back(sample("aten.embedding", {f32({10, 4}), torch::tensor(3)}, "0-d index"));
  out.push_back(sample("aten.embedding", {f64({10, 4}), torch::tensor({3, 4}, at::kInt)}, "i32 index"));
  add_bags(out);
  return out;
}

Samples layouts_norm() {
  Samples out;
  for (const bool affine : {false, true}) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{{4, 3, 6}, {2, 4, 3, 6}}) {
      for (const Layout& x : layouts(f32(shape))) add_layer_norms(out, x, affine);
      add_layer_norms(out, {f32(shape).to(at::kBFloat16), "bf16"}, affine);
      for (const bool training : {false, true}) {
        for (const Layout& x : nonempty_layouts(f32(shape))) add_batch_norms(out, x, training, affine);
        add_batch_norms(out, {f64(shape), "f64"}, training, affine);
      }
    }
    add_batch_norms(out, {f32({5, 3}), "2-d"}, true, affine);
    add_batch_norms(out, {f32({2, 4, 3, 6}).to(at::kBFloat16), "bf16"}, true, affine);
    for (const Layout& x :
         {Layout{f32({2, 4, 3, 6}), "contiguous"}, Layout{channels_last(f32({2, 4, 3, 6})), "channels last"},
          Layout{f32({2, 4}), "2-d"}, Layout{f32({2, 4, 5, 6}).to(at::kBFloat16), "bf16"}}) {
      add_group_norms(out, x, affine);
    }
  }
  out.push_back(sample("aten.batch_norm_update_stats", {f32({2, 4, 3}), torch::ones({4}), torch::ones({4}), 0.1}));
  for (const Layout& v : nonempty_layouts(f32({4, 3, 2}))) {
    if (v.name == "expanded") continue;
    const at::Tensor g = torch::ones({4, 1, 1});
    out.push_back(sample("aten._weight_norm_interface", {v.tensor, g, 0}, v.name));
    out.back().is_for_shapes = !v.tensor.is_contiguous();
    const auto norms = std::get<1>(at::_weight_norm_interface(v.tensor.contiguous(), g, 0));
    out.push_back(
        sample("aten._weight_norm_interface_backward", {f32({4, 3, 2}), v.tensor.contiguous(), g, norms, 0}, v.name));
  }
  return out;
}

Samples layouts_attention() {
  Samples out;
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    auto queries = nonempty_layouts(f32({2, 3, 8, 4}).to(dtype));
    queries.push_back({f32({2, 8, 3, 4}).to(dtype).transpose(1, 2), "heads inside"});
    queries.push_back({f32({2, 8, 36}).to(dtype).split(12, 2)[1].view({2, 8, 3, 4}).transpose(1, 2), "part of qkv"});
    queries.push_back({f32({8, 2, 3, 4}).to(dtype).permute({1, 2, 0, 3}), "length first"});
    for (const Layout& q : queries) {
      if (q.tensor.stride(-1) != 1) continue;  // the kernel wants dense rows
      const at::Tensor k = f32({2, 3, 5, 4}).to(dtype), v = f32({2, 3, 5, 4}).to(dtype);
      for (const bool causal : {false, true}) {
        out.push_back(
            sample("aten._scaled_dot_product_flash_attention_for_cpu", {q.tensor, k, v, 0.0, causal}, q.name));
        const auto [y, lse] = at::_scaled_dot_product_flash_attention_for_cpu(q.tensor, k, v, 0.0, causal);
        out.push_back(sample("aten._scaled_dot_product_flash_attention_for_cpu_backward",
                             {torch::ones_like(y), q.tensor, k, v, y, lse, 0.0, causal}, q.name));
      }
      const at::Tensor mask = torch::zeros({8, 5}, dtype);
      out.push_back(sample("aten._scaled_dot_product_flash_attention_for_cpu", {q.tensor, k, v, 0.0, false, mask, 0.5},
                           q.name + ", mask"));
    }
  }
  const at::Tensor mask = torch::zeros({2, 3, 4, 4}, at::kBool), scores = f32({2, 3, 4, 4});
  out.push_back(sample("aten._masked_softmax", {scores, mask, -1, 2}));
  out.push_back(sample("aten._masked_softmax_backward", {scores, scores, mask}));
  const at::Tensor x = f32({2, 5, 8}), w = f32({24, 8}), b = f32({24}), w_out = f32({8, 8}), b_out = f32({8});
  for (const bool need_weights : {false, true}) {
    for (const bool average : {false, true}) {
      out.push_back(sample("aten._native_multi_head_attention",
                           {x, x, x, 8, 2, w, b, w_out, b_out, c10::IValue(), need_weights, average, c10::IValue()}));
    }
  }
  return out;
}

Samples layouts_convolution() {
  Samples out;
  add_convolutions_2d(out);
  for (const Layout& x : layouts(f32({2, 4, 9}))) {
    add_convolution(out, {x.tensor, f32({6, 4, 3}), {2}, {1}, {1}, false, {0}}, "1-d " + x.name);
    add_convolution(out, {x.tensor, f32({4, 6, 3}), {2}, {1}, {1}, true, {1}}, "1-d transposed " + x.name);
  }
  add_convolution(out, {f32({2, 1, 9}), f32({6, 1, 1}), {1}, {0}, {1}, false, {0}}, "1-d one channel");
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const Layout& x : nonempty_layouts(f32({2, 3, 5, 6, 7}).to(dtype))) {
      const at::Tensor weight = f32({4, 3, 3, 3, 3}).to(dtype);
      add_convolution(out, {x.tensor, weight, {2, 1, 1}, {1, 1, 1}, {1, 1, 1}, false, {0, 0, 0}},
                      "3-d " + x.name + toString(dtype));
    }
  }
  return out;
}

Samples layouts_recurrent() {
  Samples out;
  for (const bool train : {false, true}) {
    for (const bool reverse : {false, true}) {
      for (const bool batch_first : {false, true}) {
        const at::Tensor x = batch_first ? f32({3, 5, 4}).transpose(0, 1) : f32({5, 3, 4});
        const at::Tensor w0 = f32({24, 4}), w1 = f32({24, 6}), b = f32({24}), h = f32({3, 6}), c = f32({3, 6});
        const std::string note = std::string(train ? "training" : "") + (reverse ? " reverse" : "");
        out.push_back(sample("aten.mkldnn_rnn_layer",
                             {x, w0, w1, b, b, h, c, reverse, ints({}), 2, 6, 1, true, false, batch_first, train},
                             note));
        if (!train) continue;
        const auto [y, hy, cy, work] =
            at::mkldnn_rnn_layer(x, w0, w1, b, b, h, c, reverse, {}, 2, 6, 1, true, false, batch_first, train);
        out.push_back(sample("aten.mkldnn_rnn_layer_backward",
                             {x,
                              w0,
                              w1,
                              b,
                              b,
                              h,
                              c,
                              y,
                              hy,
                              cy,
                              torch::ones_like(y),
                              torch::ones_like(hy),
                              torch::ones_like(cy),
                              reverse,
                              2,
                              6,
                              1,
                              true,
                              train,
                              false,
                              ints({}),
                              batch_first,
                              work},
                             note));
      }
    }
  }
  return out;
}

}  // namespace diptych::test
