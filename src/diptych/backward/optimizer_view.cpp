#include "diptych/backward/optimizer_view.h"

#include <c10/util/Type.h>
#include <fmt/format.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <string_view>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

namespace optim = torch::optim;
using Tensors = std::vector<at::Tensor>;
using StatePtr = std::unique_ptr<optim::OptimizerParamState>;

/// What is known of one class of optimizers.
struct OptimizerClass {
  const std::type_info* type;
  std::string_view rule;
  std::vector<double> (*options)(const optim::OptimizerOptions& options);
  int64_t (*steps)(const optim::OptimizerParamState& state);
  Tensors (*tensors)(const optim::OptimizerParamState& state);
  StatePtr (*make)(Tensors tensors);
  void (*set_steps)(optim::OptimizerParamState& state, int64_t steps);
};

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
  return {
      &typeid(Optimizer),   rule, adam_options<Options>, adam_steps<State>, adam_tensors<State>, make_adam_state<State>,
      set_adam_steps<State>};
}

const std::vector<OptimizerClass>& classes() {
  static const auto* const table = new std::vector<OptimizerClass>{
      {&typeid(optim::SGD), "sgd", sgd_options, sgd_steps, sgd_tensors, make_sgd_state,
       [](optim::OptimizerParamState& /*state*/, int64_t /*steps*/) {}},
      adam_class<optim::Adam, optim::AdamOptions, optim::AdamParamState>("adam"),
      adam_class<optim::AdamW, optim::AdamWOptions, optim::AdamWParamState>("adamw"),
  };
  return *table;
}

const OptimizerClass& class_of(const optim::Optimizer& optimizer) {
  for (const OptimizerClass& known : classes()) {
    if (*known.type == typeid(optimizer)) return known;
  }
  throw UserError(
      fmt::format("[step] got an optimizer of type {}, expected torch::optim::SGD, Adam or AdamW; call backward() and "
                  "its own step()",
                  c10::demangle(typeid(optimizer).name())));
}

class TorchView final : public OptimizerView {
 public:
  explicit TorchView(optim::Optimizer& optimizer) : optimizer_(optimizer), class_(class_of(optimizer)) {}

  OptimizerContents read() const override {
    OptimizerContents contents{std::string(class_.rule), {}};
    for (const optim::OptimizerParamGroup& group : optimizer_.param_groups()) {
      contents.groups.push_back({group.params(), {}, class_.options(group.options()), group.options().get_lr(), false});
      for (const at::Tensor& parameter : group.params()) contents.groups.back().states.push_back(state_of(parameter));
    }
    return contents;
  }

  void store(const at::Tensor& parameter, int64_t steps, const Tensors* tensors) const override {
    auto& state = optimizer_.state()[parameter.unsafeGetTensorImpl()];
    if (tensors != nullptr) state = class_.make(*tensors);
    class_.set_steps(*state, steps);
  }

 private:
  ParameterState state_of(const at::Tensor& parameter) const {
    const auto known = optimizer_.state().find(parameter.unsafeGetTensorImpl());
    if (known == optimizer_.state().end()) return {};
    return {class_.steps(*known->second), class_.tensors(*known->second)};
  }

  optim::Optimizer& optimizer_;
  const OptimizerClass& class_;
};

}  // namespace

std::shared_ptr<const OptimizerView> view_of(optim::Optimizer& optimizer) {
  return std::make_shared<const TorchView>(optimizer);
}

}  // namespace diptych::detail
