// The benchmark models in C++: the same functions, shapes and order of parameters as python/models_torch.py.
#pragma once
#include <ATen/ATen.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace diptych::bench {

using Tensors = std::vector<at::Tensor>;

/// A function and its arguments: `loss(params, buffers, data)`; gradients are wanted for `params`.
struct Model {
  std::function<Tensors(const Tensors& params, const Tensors& buffers, const Tensors& data)> loss;
  Tensors params;
  Tensors buffers;
  Tensors data;
};

/// Whether parameters get values. Untouched ones cost no memory, and are all that a capture needs.
enum class Fill { kUntouched, kValues };

inline at::Tensor parameter(at::IntArrayRef sizes, Fill fill) {
  at::Tensor value = fill == Fill::kUntouched ? at::empty(sizes)
                     : sizes.size() == 1      ? at::ones(sizes)
                                              : at::randn(sizes).mul_(0.02);
  return value.set_requires_grad(true);
}

struct GptShape {
  int64_t layers, width, heads, vocab, block, batch, positions;
};
inline constexpr GptShape kGpt{6, 384, 6, 256, 256, 8, 256};
inline constexpr GptShape kGpt2{12, 768, 12, 50257, 256, 4, 1024};

constexpr size_t kGptBlockParams = 12;

/// Two embeddings, twelve parameters a block, and the last norm; the output layer is the token embedding.
inline Tensors gpt_params(const GptShape& shape, Fill fill) {
  const int64_t w = shape.width;
  Tensors params{parameter({shape.vocab, w}, fill), parameter({shape.positions, w}, fill)};
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::array<std::vector<int64_t>, kGptBlockParams> sizes{
        {{w}, {w}, {3 * w, w}, {3 * w}, {w, w}, {w}, {w}, {w}, {4 * w, w}, {4 * w}, {w, 4 * w}, {w}}};
    for (const auto& size : sizes) params.push_back(parameter(size, fill));
  }
  params.push_back(parameter({w}, fill));
  params.push_back(parameter({w}, fill));
  return params;
}

inline at::Tensor gpt_block(const GptShape& shape, const at::Tensor& x, const at::Tensor* p) {
  const int64_t batch = x.size(0), time = x.size(1), w = shape.width;
  const auto heads = [&](const at::Tensor& part) {
    return part.view({batch, time, shape.heads, w / shape.heads}).transpose(1, 2);
  };
  const auto qkv = at::linear(at::layer_norm(x, {w}, p[0], p[1]), p[2], p[3]).split(w, 2);
  auto y = at::scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {}, 0.0, /*is_causal=*/true);
  y = y.transpose(1, 2).contiguous().view({batch, time, w});
  const auto middle = x + at::linear(y, p[4], p[5]);
  const auto h = at::layer_norm(middle, {w}, p[6], p[7]);
  return middle + at::linear(at::gelu(at::linear(h, p[8], p[9]), "tanh"), p[10], p[11]);
}

inline at::Tensor gpt_loss(const GptShape& shape, const Tensors& params, const Tensors& data) {
  const auto& tokens = data[0];
  auto x = at::embedding(params[0], tokens) + at::embedding(params[1], at::arange(tokens.size(1)));
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    x = gpt_block(shape, x, &params[2 + kGptBlockParams * layer]);
  }
  x = at::layer_norm(x, {shape.width}, params[params.size() - 2], params.back());
  const auto logits = at::linear(x, params[0]);
  return at::cross_entropy_loss(logits.view({-1, logits.size(-1)}), data[1].view({-1}));
}

inline Model gpt(const GptShape& shape, Fill fill) {
  const auto tokens = [&] { return at::randint(shape.vocab, {shape.batch, shape.block}, at::kLong); };
  return {[shape](const Tensors& p, const Tensors&, const Tensors& d) { return Tensors{gpt_loss(shape, p, d)}; },
          gpt_params(shape, fill),
          {},
          {tokens(), tokens()}};
}

struct ResnetStage {
  int64_t width, stride;
};
inline constexpr std::array<ResnetStage, 4> kResnetStages{{{64, 1}, {128, 2}, {256, 2}, {512, 2}}};

/// Calls `conv_norm(inner, outer, kernel)` for each convolution of ResNet-18 in the order of its parameters.
template <class ConvNorm>
void for_each_resnet_conv(ConvNorm&& conv_norm) {
  conv_norm(3, 64, 7);
  int64_t inner = 64;
  for (const auto& stage : kResnetStages) {
    for (const int64_t step : {stage.stride, int64_t{1}}) {
      conv_norm(inner, stage.width, 3);
      conv_norm(stage.width, stage.width, 3);
      if (step != 1 || inner != stage.width) conv_norm(inner, stage.width, 1);
      inner = stage.width;
    }
  }
}

inline Tensors resnet18_loss(const Tensors& params, const Tensors& buffers, const Tensors& data) {
  auto param = params.begin();
  auto buffer = buffers.begin();
  const auto conv_norm = [&](const at::Tensor& x, int64_t stride, int64_t padding) {
    const auto y = at::conv2d(x, param[0], {}, stride, padding);
    const auto normed = at::batch_norm(y, param[1], param[2], buffer[0], buffer[1], /*training=*/true, /*momentum=*/0.1,
                                       /*eps=*/1e-5, /*cudnn_enabled=*/false);
    param += 3;
    buffer += 2;
    return normed;
  };
  auto x = at::max_pool2d(at::relu(conv_norm(data[0], 2, 3)), 3, 2, 1);
  int64_t inner = 64;
  for (const auto& stage : kResnetStages) {
    for (const int64_t step : {stage.stride, int64_t{1}}) {
      const auto y = conv_norm(at::relu(conv_norm(x, step, 1)), 1, 1);
      const auto shortcut = step != 1 || inner != stage.width ? conv_norm(x, step, 0) : x;
      x = at::relu(y + shortcut);
      inner = stage.width;
    }
  }
  x = at::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
  return {at::cross_entropy_loss(at::linear(x, param[0], param[1]), data[1])};
}

/// ResNet-18 with its 7x7 stem on 8 pictures of 3x32x32; BatchNorm in training mode.
inline Model resnet18(Fill fill) {
  Model model{resnet18_loss, {}, {}, {at::randn({8, 3, 32, 32}), at::randint(10, {8}, at::kLong)}};
  for_each_resnet_conv([&](int64_t inner, int64_t outer, int64_t kernel) {
    model.params.push_back(parameter({outer, inner, kernel, kernel}, fill));
    model.params.push_back(parameter({outer}, fill));
    model.params.push_back(parameter({outer}, fill));
    model.buffers.push_back(at::zeros({outer}));
    model.buffers.push_back(at::ones({outer}));
  });
  model.params.push_back(parameter({10, 512}, fill));
  model.params.push_back(parameter({10}, fill));
  return model;
}

/// Two hidden layers of 512 with GELU on 128 rows of 64 features, 10 classes.
inline Model mlp(Fill fill) {
  const auto loss = [](const Tensors& p, const Tensors&, const Tensors& d) {
    const auto hidden = at::gelu(at::linear(at::gelu(at::linear(d[0], p[0], p[1])), p[2], p[3]));
    return Tensors{at::cross_entropy_loss(at::linear(hidden, p[4], p[5]), d[1])};
  };
  Tensors params;
  for (const auto& [inner, outer] : {std::pair<int64_t, int64_t>{64, 512}, {512, 512}, {512, 10}}) {
    params.push_back(parameter({outer, inner}, fill));
    params.push_back(parameter({outer}, fill));
  }
  return {loss, params, {}, {at::randn({128, 64}), at::randint(10, {128}, at::kLong)}};
}

/// One LSTM step written out, batch 32 and 256 wide; returns the new hidden and cell states.
inline Model lstm_cell(Fill fill) {
  const auto step = [](const Tensors& p, const Tensors&, const Tensors& d) {
    const auto gates = (at::linear(d[0], p[0], p[2]) + at::linear(d[1], p[1])).chunk(4, 1);
    const auto cell = at::sigmoid(gates[1]) * d[2] + at::sigmoid(gates[0]) * at::tanh(gates[2]);
    return Tensors{at::sigmoid(gates[3]) * at::tanh(cell), cell};
  };
  Tensors params{parameter({1024, 256}, fill), parameter({1024, 256}, fill), parameter({1024}, fill)};
  return {step, params, {}, {at::randn({32, 256}), at::randn({32, 256}), at::randn({32, 256})}};
}

/// Returns every model by name. Errors: std::out_of_range for an unknown name.
inline Model make_model(const std::string& name, Fill fill) {
  if (name == "gpt") return gpt(kGpt, fill);
  if (name == "gpt2") return gpt(kGpt2, fill);
  if (name == "resnet18") return resnet18(fill);
  if (name == "mlp") return mlp(fill);
  if (name == "lstm_cell") return lstm_cell(fill);
  throw std::out_of_range("no benchmark model is called " + name);
}

/// Five operators on two elements, so that only the cost of a call is left to measure.
inline at::Tensor two_elements(const at::Tensor& x, const at::Tensor& y) { return (at::tanh(x * y + x) * y).sum(); }

inline Tensors two_element_inputs() {
  return {at::tensor({0.5F, -1.5F}).set_requires_grad(true), at::tensor({1.25F, 0.75F}).set_requires_grad(true)};
}

}  // namespace diptych::bench
