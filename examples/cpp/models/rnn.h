// A language model with one recurrent layer, run by dp::scan: the graph holds one time step, however long the text.
// Source: Elman 1990.
#pragma once
#include <diptych/hops/scan/scan.h>

#include <cmath>
#include <utility>

#include "models/layers.h"

namespace examples {

struct RnnConfig {
  int64_t vocabulary = 256;
  int64_t width = 256;
};

struct Rnn {
  at::Tensor tokens;  ///< f32[vocabulary, width]
  Linear from_input, from_state;
  Linear head;
  DIPTYCH_FIELDS(tokens, from_input, from_state, head)
};

/// Makes the parameters, drawn from torch's default generator.
inline Rnn make_rnn(const RnnConfig& config) {
  const double spread = 1.0 / std::sqrt(static_cast<double>(config.width));
  return {parameter(at::randn({config.vocabulary, config.width})), make_linear(config.width, config.width, spread),
          make_linear(config.width, config.width, spread), make_linear(config.width, config.vocabulary, spread)};
}

/// Scores of each next token, from a state of zeros. Shapes: i64[batch, length] -> f32[batch, length, vocabulary].
inline at::Tensor rnn_logits(const Rnn& rnn, const at::Tensor& tokens) {
  const at::Tensor inputs = at::embedding(rnn.tokens, tokens).transpose(0, 1);
  const auto cell = [&](const at::Tensor& state, const at::Tensor& input) {
    const at::Tensor next = at::tanh(apply(rnn.from_input, input) + apply(rnn.from_state, state));
    return std::pair{next, next};
  };
  const at::Tensor start = at::zeros({tokens.size(0), rnn.tokens.size(1)}, rnn.tokens.options());
  const auto [last, states] = diptych::scan(cell, start, inputs);
  return apply(rnn.head, states.transpose(0, 1));
}

/// Shapes: tokens and targets i64[batch, length] -> f32[].
inline at::Tensor rnn_loss(const Rnn& rnn, const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(rnn_logits(rnn, tokens).flatten(0, 1), targets.flatten());
}

}  // namespace examples
