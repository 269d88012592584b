// A language model with one LSTM layer, its cell written out: the graph holds every time step.
// Source: Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
#pragma once
#include <cmath>
#include <utility>
#include <vector>

#include "models/layers.h"

namespace examples {

struct LstmConfig {
  int64_t vocabulary = 256;
  int64_t width = 256;
};

struct Lstm {
  at::Tensor tokens;              ///< f32[vocabulary, width]
  Linear from_input, from_state;  ///< to the four gates: input, forget, cell, output
  Linear head;
  DIPTYCH_FIELDS(tokens, from_input, from_state, head)
};

/// Makes the parameters, drawn from torch's default generator. The forget gate starts open.
inline Lstm make_lstm(const LstmConfig& config) {
  const double spread = 1.0 / std::sqrt(static_cast<double>(config.width));
  Lstm lstm{parameter(at::randn({config.vocabulary, config.width})),
            make_linear(config.width, 4 * config.width, spread), make_linear(config.width, 4 * config.width, spread),
            make_linear(config.width, config.vocabulary, spread)};
  torch::NoGradGuard no_grad;
  lstm.from_input.bias.slice(0, config.width, 2 * config.width).fill_(1.0);
  return lstm;
}

/// One time step. Shapes: gates f32[batch, 4 * width] (the input's part), hidden and cell f32[batch, width], replaced.
inline void lstm_cell(const Lstm& lstm, const at::Tensor& gates_from_input, at::Tensor& hidden, at::Tensor& cell) {
  const auto gates = (gates_from_input + apply(lstm.from_state, hidden)).chunk(4, 1);
  cell = at::sigmoid(gates[1]) * cell + at::sigmoid(gates[0]) * at::tanh(gates[2]);
  hidden = at::sigmoid(gates[3]) * at::tanh(cell);
}

/// Scores of each next token, from a state of zeros. Shapes: i64[batch, length] -> f32[batch, length, vocabulary].
inline at::Tensor lstm_logits(const Lstm& lstm, const at::Tensor& tokens) {
  const auto steps = apply(lstm.from_input, at::embedding(lstm.tokens, tokens)).unbind(1);
  at::Tensor hidden = at::zeros({tokens.size(0), lstm.tokens.size(1)}, lstm.tokens.options());
  at::Tensor cell = hidden;
  std::vector<at::Tensor> states;
  for (const auto& step : steps) {
    lstm_cell(lstm, step, hidden, cell);
    states.push_back(hidden);
  }
  return apply(lstm.head, at::stack(states, 1));
}

/// Shapes: tokens and targets i64[batch, length] -> f32[].
inline at::Tensor lstm_loss(const Lstm& lstm, const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(lstm_logits(lstm, tokens).flatten(0, 1), targets.flatten());
}

}  // namespace examples
