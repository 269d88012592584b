#include "diptych/backward/update_formulas.h"

#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <fmt/format.h>

#include "diptych/backward/update_rules.h"
#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

using Options = std::vector<double>;

// Everything in the dtype of the computation.
struct Moment {
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> states;
  at::Tensor number, rate;  // float64
};

UpdatedTensors sgd_formula(const Moment& now, const Options& options) {
  const double momentum = options[kMomentum], decay = options[kSgdWeightDecay];
  at::Tensor gradient = decay == 0 ? now.gradient : at::add(now.gradient, now.parameter, decay);
  UpdatedTensors after;
  if (momentum != 0) {
    // The first momentum is the gradient itself.
    const at::Tensor later = at::add(at::mul(now.states[0], momentum), gradient, 1 - options[kDampening]);
    after.states = {at::where(at::eq(now.number, 1), gradient, later)};
    gradient = options[kNesterov] != 0 ? at::add(gradient, after.states[0], momentum) : after.states[0];
  }
  after.parameter = at::sub(now.parameter, at::mul(gradient, now.rate));
  return after;
}

// `parameter` and `gradient` are after the weight decay.
UpdatedTensors adam_formula(const at::Tensor& parameter, const at::Tensor& gradient, const Moment& now,
                            const Options& options) {
  const double beta1 = options[kBeta1], beta2 = options[kBeta2];
  const at::Tensor mean = at::add(at::mul(now.states[0], beta1), gradient, 1 - beta1);
  const at::Tensor square = at::add(at::mul(now.states[1], beta2), at::mul(gradient, gradient), 1 - beta2);
  UpdatedTensors after{{}, {mean, square}};
  if (options[kAmsgrad] != 0) after.states.push_back(at::maximum(now.states[2], square));
  const at::Tensor step_size = at::div(now.rate, at::rsub(at::pow(beta1, now.number), 1));
  const at::Tensor correction = at::sqrt(at::rsub(at::pow(beta2, now.number), 1));
  const at::Tensor scale = at::add(at::div(at::sqrt(after.states.back()), correction), options[kEps]);
  after.parameter = at::sub(parameter, at::div(at::mul(mean, step_size), scale));
  return after;
}

UpdatedTensors adam(const Moment& now, const Options& options) {
  const double decay = options[kWeightDecay];
  const at::Tensor gradient = decay == 0 ? now.gradient : at::add(now.gradient, now.parameter, decay);
  return adam_formula(now.parameter, gradient, now, options);
}

UpdatedTensors adamw(const Moment& now, const Options& options) {
  const at::Tensor kept = at::rsub(at::mul(now.rate, options[kWeightDecay]), 1);
  return adam_formula(at::mul(now.parameter, kept), now.gradient, now, options);
}

struct Formula {
  std::string_view rule;
  UpdatedTensors (*formula)(const Moment& now, const Options& options);
};
constexpr Formula kFormulas[] = {{"sgd", sgd_formula}, {"adam", adam}, {"adamw", adamw}};

const Formula& find_formula(std::string_view rule) {
  for (const Formula& row : kFormulas) {
    if (row.rule == rule) return row;
  }
  throw InternalError(fmt::format("there is no formula for the update rule '{}'", rule));
}

}  // namespace

UpdatedTensors updated(std::string_view rule, const std::vector<double>& options, const UpdatedTensors& before,
                       const at::Tensor& gradient, const at::Tensor& number, const at::Tensor& rate) {
  const auto dtype = before.parameter.scalar_type();
  const auto computed = at::isReducedFloatingType(dtype) ? at::kFloat : dtype;
  Moment now{before.parameter.to(computed), gradient.to(computed), {}, number, rate};
  for (const at::Tensor& state : before.states) now.states.push_back(state.to(computed));
  UpdatedTensors after = find_formula(rule).formula(now, options);
  after.parameter = after.parameter.to(dtype);
  for (at::Tensor& state : after.states) state = state.to(dtype);
  return after;
}

}  // namespace diptych::detail
