// A language model of selective state-space layers: each channel keeps a few numbers that decay and take in by as much
// as the input says. The recurrence over time is an associative scan, so its graph does not hold every time step.
// Source: Gu and Dao, "Mamba", 2023, without the short convolution.
#pragma once
#include <diptych/hops/associative_scan.h>
#include <diptych/trace/scope.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "models/layers.h"

namespace examples {

struct SsmConfig {
  int64_t vocabulary = 256;
  int64_t layers = 3;
  int64_t width = 128;
  int64_t states = 8;  ///< numbers that each channel keeps
};

struct SsmLayer {
  Norm norm;
  Linear in;         ///< to the channels, 2 * width, and their gates
  Linear select;     ///< from the channels to their steps, and to what all channels write and read
  at::Tensor rates;  ///< f32[channels, states]: logarithms of the decay per step
  at::Tensor skip;   ///< f32[channels]
  Linear out;
  DIPTYCH_FIELDS(norm, in, select, rates, skip, out)
};

struct Ssm {
  at::Tensor tokens;  ///< f32[vocabulary, width]
  std::vector<SsmLayer> layers = {};
  Norm final_norm = {};
  Linear head = {};
  DIPTYCH_FIELDS(tokens, layers, final_norm, head)
};

/// Steps are drawn between 0.001 and 0.1, so that at first some channels remember long and some forget soon.
inline SsmLayer make_ssm_layer(const SsmConfig& config) {
  const int64_t channels = 2 * config.width;
  const double from_width = 1.0 / std::sqrt(static_cast<double>(config.width));
  const double from_channels = 1.0 / std::sqrt(static_cast<double>(channels));
  SsmLayer layer{make_norm(config.width),
                 make_linear(config.width, 2 * channels, from_width),
                 make_linear(channels, channels + 2 * config.states, from_channels),
                 parameter(at::arange(1, config.states + 1, at::kFloat).log().repeat({channels, 1})),
                 parameter(at::ones({channels})),
                 make_linear(channels, config.width, from_channels / static_cast<double>(config.layers))};
  torch::NoGradGuard no_grad;
  layer.select.weight.slice(0, 0, channels).mul_(0.1);
  const at::Tensor steps = at::exp(at::rand({channels}) * std::log(100.0) + std::log(0.001));
  layer.select.bias.slice(0, 0, channels).copy_(at::log(at::expm1(steps)));  // the inverse of softplus
  return layer;
}

/// Makes the parameters, drawn from torch's default generator.
inline Ssm make_ssm(const SsmConfig& config) {
  Ssm ssm{parameter(at::randn({config.vocabulary, config.width}))};
  for (int64_t i = 0; i < config.layers; ++i) ssm.layers.push_back(make_ssm_layer(config));
  ssm.final_norm = make_norm(config.width);
  ssm.head = make_linear(config.width, config.vocabulary, 1.0 / std::sqrt(static_cast<double>(config.width)));
  return ssm;
}

/// state[t] = decay[t] * state[t - 1] + input[t] along dimension 1, from a state of zeros: one step after another is
/// again such a step, which decays by the product.
inline at::Tensor linear_recurrence(const at::Tensor& decay, const at::Tensor& input) {
  const auto one_after_another = [](const auto& a, const auto& b) {
    return std::pair(a.first * b.first, at::addcmul(b.second, b.first, a.second));
  };
  return diptych::associative_scan(one_after_another, std::pair(decay, input), {.dim = 1}).second;
}

/// What a layer adds to its input. Shapes: f32[batch, length, width] -> the same.
inline at::Tensor apply(const SsmLayer& layer, const at::Tensor& x) {
  const int64_t channels = layer.skip.size(0), states = layer.rates.size(1);
  const auto inner = apply(layer.in, apply(layer.norm, x)).split(channels, -1);
  const at::Tensor u = at::silu(inner[0]);
  const auto selected = apply(layer.select, u).split_with_sizes({channels, states, states}, -1);
  const at::Tensor step = at::softplus(selected[0]);                          // [batch, length, channels]
  const at::Tensor decay = at::exp(-step.unsqueeze(-1) * layer.rates.exp());  // [batch, length, channels, states]
  const at::Tensor state = linear_recurrence(decay, (step * u).unsqueeze(-1) * selected[1].unsqueeze(-2));
  const at::Tensor read = at::matmul(state, selected[2].unsqueeze(-1)).squeeze(-1);
  return apply(layer.out, (read + u * layer.skip) * at::silu(inner[1]));
}

/// Scores of each next token, from states of zeros. Shapes: i64[batch, length] -> f32[batch, length, vocabulary].
inline at::Tensor ssm_logits(const Ssm& ssm, const at::Tensor& tokens) {
  at::Tensor x = at::embedding(ssm.tokens, tokens);
  for (size_t i = 0; i < ssm.layers.size(); ++i) {
    const auto scope = diptych::scope("layer" + std::to_string(i));
    x = x + apply(ssm.layers[i], x);
  }
  return apply(ssm.head, apply(ssm.final_norm, x));
}

/// Mean cross entropy of the next token. Shapes: tokens and targets i64[batch, length] -> f32[].
inline at::Tensor ssm_loss(const Ssm& ssm, const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(ssm_logits(ssm, tokens).flatten(0, 1), targets.flatten());
}

}  // namespace examples
