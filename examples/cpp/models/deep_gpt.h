// A deep GPT whose blocks are equal modules, run as one scan over their stacked parameters: capturing it costs one
// block. Each block is a checkpoint, so that of a block only its input is kept for the backward.
#pragma once
#include <diptych/hops/checkpoint.h>
#include <diptych/hops/scan/scan_layers.h>
#include <torch/nn.h>

#include <string>
#include <vector>

#include "models/gpt.h"

namespace examples {

struct DeepGptConfig {
  GptConfig sizes{.block = 128, .layers = 24, .width = 128, .heads = 4};
  bool checkpoint = true;
};

struct DeepBlockImpl : torch::nn::Module {
  explicit DeepBlockImpl(const DeepGptConfig& config)
      : heads(config.sizes.heads),
        checkpoint(config.checkpoint),
        norm1(register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.sizes.width})))),
        mix(register_module("mix", torch::nn::Linear(config.sizes.width, 3 * config.sizes.width))),
        out(register_module("out", torch::nn::Linear(config.sizes.width, config.sizes.width))),
        norm2(register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.sizes.width})))),
        wide(register_module("wide", torch::nn::Linear(config.sizes.width, 4 * config.sizes.width))),
        narrow(register_module("narrow", torch::nn::Linear(4 * config.sizes.width, config.sizes.width))) {}

  at::Tensor attend(const at::Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto parts = mix(x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
    const at::Tensor mixed = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{},
                                                              /*dropout_p=*/0.0, /*is_causal=*/true);
    return out(mixed.transpose(1, 2).reshape({batch, length, width}));
  }

  at::Tensor compute(const at::Tensor& x) {
    const at::Tensor y = x + attend(norm1(x));
    return y + narrow(at::gelu(wide(norm2(y)), "tanh"));
  }

  at::Tensor forward(const at::Tensor& x) {
    if (!checkpoint) return compute(x);
    return diptych::checkpoint([this](const at::Tensor& t) { return compute(t); })(x);
  }

  int64_t heads;
  bool checkpoint;
  torch::nn::LayerNorm norm1;
  torch::nn::Linear mix, out;
  torch::nn::LayerNorm norm2;
  torch::nn::Linear wide, narrow;
};
TORCH_MODULE(DeepBlock);

struct DeepGptImpl : torch::nn::Module {
  explicit DeepGptImpl(const DeepGptConfig& config)
      : tokens(register_module("tokens", torch::nn::Embedding(config.sizes.vocabulary, config.sizes.width))),
        positions(register_module("positions", torch::nn::Embedding(config.sizes.block, config.sizes.width))),
        norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.sizes.width})))) {
    for (int64_t i = 0; i < config.sizes.layers; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), DeepBlock(config)));
    }
    const torch::NoGradGuard no_grad;
    tokens->weight.mul_(0.02);
    positions->weight.mul_(0.02);
  }

  /// Shapes: i64[batch, length] -> f32[batch, length, vocabulary].
  at::Tensor forward(const at::Tensor& text) {
    const at::Tensor x = tokens(text) + positions->weight.slice(0, 0, text.size(1));
    return at::linear(norm(diptych::scan_layers(blocks, x)), tokens->weight);
  }

  torch::nn::Embedding tokens, positions;
  std::vector<DeepBlock> blocks;
  torch::nn::LayerNorm norm;
};
TORCH_MODULE(DeepGpt);

/// Mean cross entropy of the next token. Shapes: tokens and targets i64[batch, length] -> f32[].
inline at::Tensor deep_gpt_loss(DeepGpt& gpt, const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(gpt(tokens).flatten(0, 1), targets.flatten());
}

}  // namespace examples
