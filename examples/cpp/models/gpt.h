// A GPT as plain structs of tensors: token and position embeddings, blocks of attention and a two-layer network, a
// final norm, and a head that shares the token embedding's weight. Source: Radford et al. 2019; sizes as in nanoGPT.
#pragma once
#include <diptych/trace/scope.h>
#include <torch/types.h>

#include <cmath>
#include <string>
#include <vector>

#include "models/layers.h"

namespace examples {

struct GptConfig {
  int64_t vocabulary = 256;
  int64_t block = 256;  ///< the longest sequence
  int64_t layers = 6;
  int64_t width = 384;
  int64_t heads = 6;
};

struct GptBlock {
  Norm attention_norm;
  Linear query_key_value, attention_out;
  Norm mlp_norm;
  Linear mlp_in, mlp_out;
  DIPTYCH_FIELDS(attention_norm, query_key_value, attention_out, mlp_norm, mlp_in, mlp_out)
};

struct Gpt {
  at::Tensor tokens, positions;  ///< f32[vocabulary, width], f32[block, width]
  std::vector<GptBlock> blocks = {};
  Norm final_norm = {};
  int64_t heads = 0;
  DIPTYCH_FIELDS(tokens, positions, blocks, final_norm, heads)
};

/// Makes the parameters, drawn from torch's default generator.
inline Gpt make_gpt(const GptConfig& config) {
  constexpr double kSpread = 0.02;
  const double into_residual =
      kSpread / std::sqrt(2.0 * static_cast<double>(config.layers));  // keeps the sum's variance
  const int64_t width = config.width;
  Gpt gpt{parameter(at::randn({config.vocabulary, width}) * kSpread),
          parameter(at::randn({config.block, width}) * kSpread)};
  for (int64_t i = 0; i < config.layers; ++i) {
    gpt.blocks.push_back({make_norm(width), make_linear(width, 3 * width, kSpread),
                          make_linear(width, width, into_residual), make_norm(width),
                          make_linear(width, 4 * width, kSpread), make_linear(4 * width, width, into_residual)});
  }
  gpt.final_norm = make_norm(width);
  gpt.heads = config.heads;
  return gpt;
}

inline at::Tensor attention(const GptBlock& block, const at::Tensor& x, int64_t heads) {
  const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
  const auto parts =
      apply(block.query_key_value, x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  const at::Tensor mixed =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2], /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                       /*is_causal=*/true);
  return apply(block.attention_out, mixed.transpose(1, 2).reshape({batch, length, width}));
}

/// Scores of each next token. Shapes: tokens i64[batch, length <= block] -> f32[batch, length, vocabulary].
inline at::Tensor gpt_logits(const Gpt& gpt, const at::Tensor& tokens) {
  at::Tensor x = at::embedding(gpt.tokens, tokens) + gpt.positions.slice(0, 0, tokens.size(1));
  for (size_t i = 0; i < gpt.blocks.size(); ++i) {
    const auto scope = diptych::scope("block" + std::to_string(i));
    const GptBlock& block = gpt.blocks[i];
    x = x + attention(block, apply(block.attention_norm, x), gpt.heads);
    x = x + apply(block.mlp_out, at::gelu(apply(block.mlp_in, apply(block.mlp_norm, x)), "tanh"));
  }
  return at::linear(apply(gpt.final_norm, x), gpt.tokens);
}

/// Mean cross entropy of the next token. Shapes: tokens and targets i64[batch, length] -> f32[].
inline at::Tensor gpt_loss(const Gpt& gpt, const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(gpt_logits(gpt, tokens).flatten(0, 1), targets.flatten());
}

}  // namespace examples
