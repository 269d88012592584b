#include "diptych/backward/optimizer_view.h"

#include <c10/util/Type.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "diptych/backward/update_parameters.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

namespace optim = torch::optim;
using Tensors = std::vector<at::Tensor>;
using StatePtr = std::unique_ptr<optim::OptimizerParamState>;

std::vector<double> sgd_options(const optim::OptimizerOptions& base) {
  const auto& options = static_cast<const optim::SGDOptions&>(base);
  return {options.momentum(), options.dampening(), options.weight_decay(), options.nesterov() ? 1.0 : 0.0};
}

// SGD counts no steps: all that matters is whether there is a momentum.
int64_t sgd_steps(const optim::OptimizerParamState& state) {
  return static_cast<const optim::SGDParamState&>(state).momentum_buffer().defined() ? 1 : kNoState;
}

Tensors sgd_tensors(const optim::OptimizerParamState& state) {
  return {static_cast<const optim::SGDParamState&>(state).momentum_buffer()};
}

StatePtr make_sgd_state(Tensors tensors) {
  auto state = std::make_unique<optim::SGDParamState>();
  if (!tensors.empty()) state->momentum_buffer(std::move(tensors[0]));
  return state;
}

template <class Options>
std::vector<double> adam_options(const optim::OptimizerOptions& base) {
  const auto& options = static_cast<const Options&>(base);
  const auto [beta1, beta2] = options.betas();
  return {beta1, beta2, options.eps(), options.weight_decay(), options.amsgrad() ? 1.0 : 0.0};
}

template <class State>
int64_t adam_steps(const optim::OptimizerParamState& state) {
  return static_cast<const State&>(state).step();
}

template <class State>
Tensors adam_tensors(const optim::OptimizerParamState& base) {
  const auto& state = static_cast<const State&>(base);
  return {state.exp_avg(), state.exp_avg_sq(), state.max_exp_avg_sq()};
}

template <class State>
StatePtr make_adam_state(Tensors tensors) {
  auto state = std::make_unique<State>();
  state->exp_avg(tensors[0]);
  state->exp_avg_sq(tensors[1]);
  if (tensors.size() > 2) state->max_exp_avg_sq(tensors[2]);
  return state;
}

template <class State>
void set_adam_steps(optim::OptimizerParamState& state, int64_t steps) {
  static_cast<State&>(state).step(steps);
}

template <class Optimizer, class Options, class State>
OptimizerClass adam_class(std::string_view rule) {
  return {&typeid(Optimizer),
          rule,
          {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
          adam_options<Options>,
          adam_steps<State>,
          adam_tensors<State>,
          make_adam_state<State>,
          set_adam_steps<State>};
}

const std::vector<OptimizerClass>& classes() {
  static const auto* const table = new std::vector<OptimizerClass>{
      {&typeid(optim::SGD),
       "sgd",
       {"momentum_buffer"},
       sgd_options,
       sgd_steps,
       sgd_tensors,
       make_sgd_state,
       [](optim::OptimizerParamState& /*state*/, int64_t /*steps*/) {}},
      adam_class<optim::Adam, optim::AdamOptions, optim::AdamParamState>("adam"),
      adam_class<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>("adamw"),
  };
  return *table;
}

}  // namespace

const OptimizerClass& class_of(const optim::Optimizer& optimizer) {
  for (const OptimizerClass& known : classes()) {
    if (*known.type == typeid(optimizer)) return known;
  }
  throw UserError(
      fmt::format("[step] got an optimizer of type {}, expected torch::optim::SGD, Adam or AdamW; call backward() and "
                  "its own step()",
                  c10::demangle(typeid(optimizer).name())));
}

}  // namespace diptych::detail
