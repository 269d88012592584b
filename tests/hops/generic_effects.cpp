// The generic set: what bodies do besides computing, and what happens to tensors between forward and backward.
#include <ATen/autocast_mode.h>
#include <torch/nn.h>

#include "hops/generic_set.h"
#include "testing/refusal.h"

namespace diptych::testing {
namespace {

using T = const Tensors&;

// In-place operators.
void in_place_on_intermediates(const Subject& subject) {
  expect_as_loop(subject, {.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                             at::Tensor h = c[0] * w[0];
                             h.add_(x[0]).mul_(0.5);
                             at::Tensor kept = h.clone();
                             h.select(0, 1).mul_(w[0][0]);
                             kept[0].zero_();
                             return {{h.sin_()}, {kept}};
                           }});
}

void in_place_on_clones_of_arguments(const Subject& subject) {
  expect_as_loop(subject, {.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                             at::Tensor h = c[0].clone();
                             at::Tensor y = x[0].clone();
                             h.mul_(w[0]);
                             y.add_(h);
                             return {{h}, {y}};
                           }});
}

// Where gradients stop.
void no_grad_and_detach(const Subject& subject) {
  expect_as_loop(subject, {.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                             at::Tensor frozen;
                             {
                               const torch::NoGradGuard guard;
                               frozen = (c[0] * w[0]).exp();
                             }
                             const at::Tensor h = (frozen * c[0] + x[0].detach() * w[0]).tanh();
                             return {{h}, {frozen, h * 2, x[0].detach()}};
                           }});
}

void under_no_grad(const Subject& subject) {
  const torch::NoGradGuard guard;
  expect_as_loop(subject, cell());
}

void without_grad_but_enabled_inside(const Subject& subject) {
  const Case loop{.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                    const at::Tensor h = (c[0] * w[0] + x[0]).detach();
                    const torch::AutoGradMode mode(true);
                    return {{h}, {h * 2}};
                  }};
  const torch::NoGradGuard guard;
  for (const Caller& caller : callers()) {
    const Tensors expected = loop.written_out_for(subject)(loop.inputs());
    const Tensors got = caller.wrap(loop.run_by(subject))(loop.inputs());
    EXPECT_TRUE(same_tensors(got, expected, kClose)) << caller.name;
  }
}

// Autocast.
class Autocast {
 public:
  explicit Autocast(bool enabled = true) : was_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
  }
  ~Autocast() {
    at::autocast::set_autocast_enabled(at::kCPU, was_);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool was_;
};

Case float_cell(bool casts_inside) {
  return {.leaves =
              [] {
                return Tensors{leaf({2, 3}), leaf({3, 2, 3}, 0.3), leaf({3, 3}, 0.7)};
              },
          .step = [=](T c, T x, T w) -> StepResult {
            at::Tensor h;
            {
              const Autocast inside(casts_inside || at::autocast::is_autocast_enabled(at::kCPU));
              h = c[0].mm(w[0]);
            }
            return {{(h.to(torch::kFloat) + x[0]).tanh()}, {h, x[0].mm(w[0])}};
          },
          .tolerance = 1e-2};
}

void autocast_inside(const Subject& subject) { expect_as_loop(subject, float_cell(true)); }

void autocast_around(const Subject& subject) {
  const Case loop = float_cell(false);
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const auto run = [&](const Function& function) {
      const Tensors inputs = loop.inputs();
      Tensors found;
      {
        const Autocast around;
        found = function(inputs);
      }
      at::Tensor loss = torch::zeros({});
      for (const at::Tensor& output : found) loss = loss + output.to(torch::kFloat).sum();
      loss.backward();
      for (const at::Tensor& input : inputs) found.push_back(input.grad());
      return found;
    };
    const Tensors expected = run(loop.written_out_for(subject));
    const Tensors got = run(caller.wrap(loop.run_by(subject)));
    EXPECT_TRUE(same_tensors(got, expected, within(1e-2)));
  }
}

// Custom functions.
struct TenfoldGradient : torch::autograd::Function<TenfoldGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    // Deliberately not the derivative of the forward.
    return {gradients[0] * 10 * context->get_saved_variables()[0]};
  }
};

Case custom_function_case() {
  return {.leaves = three, .step = [](T c, T x, T w) -> StepResult {
            const at::Tensor h = (TenfoldGradient::apply(c[0] * w[0]) + x[0]).sin() * 0.3;
            return {{h}, {h * 2}};
          }};
}

void custom_function(const Subject& subject) {
  if (subject.has_unknown_length)
    return expect_alike({three}, custom_function_case().written_out_for(subject),
                        custom_function_case().run_by(subject), {.tolerance = 1e-12});
  expect_as_loop(subject, custom_function_case());
}

void second_order_of_a_custom_function_is_refused(const Subject& subject) {
  const Case loop = custom_function_case();
  expect_refusal(
      [&] {
        const Tensors inputs = loop.inputs();
        torch::autograd::grad({loop.run_by(subject)(inputs)[0].sum()}, inputs, {}, true, /*create_graph=*/true, true);
      },
      {"torch::autograd::Function", "custom_vjp"});
}

// Buffers.
void batch_norm(const Subject& subject) {
  const auto train = [](const LoopFunction& run, const Caller& caller) {
    torch::manual_seed(3);
    torch::nn::BatchNorm1d norm(torch::nn::BatchNorm1dOptions(3));
    norm->to(torch::kFloat64);
    const Function function = caller.wrap([&](const Tensors& t) {
      const Step step = [&](const Tensors& c, const Tensors& x) -> StepResult {
        const at::Tensor h = norm->forward(c[0] * 0.5 + x[0]);
        return {{h}, {h.sin()}};
      };
      StepResult found = run(step, {t[0]}, {t[1]}, 4);
      found.first.insert(found.first.end(), found.second.begin(), found.second.end());
      return found.first;
    });
    Tensors seen;
    for (int call = 0; call < 2; ++call) {
      const Tensors inputs{leaf64({5, 3}), leaf64({4, 5, 3}, 0.3)};
      at::Tensor loss = torch::zeros({}, torch::kFloat64);
      for (const at::Tensor& output : function(inputs)) loss = loss + output.square().sum();
      loss.backward();
      for (const at::Tensor& input : inputs) seen.push_back(input.grad().clone());
      for (const at::Tensor& parameter : norm->parameters()) seen.push_back(parameter.grad().clone());
      for (const at::Tensor& buffer : norm->buffers()) seen.push_back(buffer.clone());
    }
    return seen;
  };
  const Tensors expected = train(subject.reference, callers()[0]);
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const Tensors got = train(subject.run, caller);
    EXPECT_TRUE(same_tensors(got, expected, within(1e-9)));
  }
}

void later_steps_see_a_changed_buffer(const Subject& subject) {
  expect_as_loop(subject, {.leaves =
                               [] {
                                 return Tensors{leaf64({2}), leaf64({3, 2}, 0.3), values64({2}, 0.7)};
                               },
                           .step = [](T c, T x, T buffer) -> StepResult {
                             const at::Tensor before = buffer[0] * 1;
                             {
                               const torch::NoGradGuard guard;
                               buffer[0].mul_(0.5).add_(x[0].detach());
                             }
                             return {{c[0] * buffer[0].clone()}, {before, c[0] + buffer[0]}};
                           }});
}

// Saved tensors.
Tensors run_and_change(const Function& function, T inputs, size_t changed) {
  const Tensors outputs = function(inputs);
  const torch::NoGradGuard guard;
  inputs[changed].add_(1);
  return outputs;
}

void changing_a_saved_operand_is_eagers_error(const Subject& subject) {
  const Case loop = cell();
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const Function function = caller.wrap(loop.run_by(subject));
    for (const size_t changed : {1, 2}) {
      const Tensors outputs = run_and_change(function, loop.inputs(), changed);
      expect_error<std::exception>([&] { outputs[0].sum().backward(); }, "has been modified by an inplace operation");
    }
  }
}

void changing_what_backward_does_not_need_is_fine(const Subject& subject) {
  if (subject.runs_again) return;
  const Case loop{.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                    return {{c[0] * 2 + x[0] + w[0]}, {c[0] - w[0]}};
                  }};
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const Function function = caller.wrap(loop.run_by(subject));
    for (const size_t changed : {0, 1, 2}) {
      const Tensors inputs = loop.inputs();
      const Tensors outputs = run_and_change(function, inputs, changed);
      outputs[0].sum().backward();
      EXPECT_TRUE(inputs[0].grad().defined());
    }
  }
}

// Errors.
void an_exception_leaves_nothing_behind(const Subject& subject) {
  const Case loop{.leaves = three, .step = [](T, T, T) -> StepResult { throw std::runtime_error("from the body"); }};
  expect_refusal<std::runtime_error>([&] { (void)loop.run_by(subject)(loop.inputs()); }, {"from the body"});
  expect_refusal<std::runtime_error>([&] { (void)callers()[1].wrap(loop.run_by(subject))(loop.inputs()); },
                                     {"from the body"});
}

void reading_a_value_is_refused_by_name(const Subject& subject) {
  const Case loop{.leaves = three, .step = [](T c, T x, T w) -> StepResult {
                    return {{c[0] * w[0].sum().item<double>()}, {x[0]}};
                  }};
  expect_refusal([&] { (void)loop.run_by(subject)(loop.inputs()); }, {"aten::item", "needs the values of a tensor"});
}

// A loop that changes what it is given, and what its inputs are afterwards.
void expect_inputs_changed_as_by_loop(const Subject& subject, const Case& loop) {
  const auto with_inputs_after = [](const Function& function) -> Function {
    return [=](const Tensors& leaves) {
      Tensors inputs, results;
      for (const at::Tensor& leaf : leaves) inputs.push_back(leaf * 1);
      for (const at::Tensor& result : function(inputs)) results.push_back(result);
      for (const at::Tensor& input : inputs) results.push_back(input * 2);
      return results;
    };
  };
  const Tensors leaves = loop.leaves();
  for (const Caller& caller : callers()) {
    SCOPED_TRACE(caller.name);
    const Function ours = caller.wrap(with_inputs_after(loop.run_by(subject)));
    EXPECT_TRUE(same_tensors(ours(leaves), with_inputs_after(loop.written_out_for(subject))(leaves), kClose));
    expect_gradients_right(leaves, ours);
  }
}

void an_argument_changed_in_place(const Subject& subject) {
  const Case loop{.leaves = three, .step = [&](T c, T x, T w) -> StepResult {
                    const at::Tensor changed = (subject.has_carries ? c : x)[0];
                    changed.mul_(w[0]).add_(1);
                    const at::Tensor given_out = changed.clone() * w[0];
                    // A result is a value: the next call of a branch gets a tensor of its own.
                    return {{subject.is_loop ? changed : changed.clone()}, {given_out}};
                  }};
  if (subject.may_write) return expect_inputs_changed_as_by_loop(subject, loop);
  const Tensors leaves = loop.leaves();
  expect_refusal([&] { (void)loop.run_by(subject)({leaves[0] * 1, leaves[1] * 1, leaves[2]}); }, {"in place"});
}

void a_captured_tensor_changed_with_grad(const Subject& subject) {
  const Case loop{.leaves = three,
                  .step = [](T c, T x, T w) -> StepResult {
                    at::Tensor(w[0]).mul_(x[0]);
                    const at::Tensor now = w[0].clone();
                    return {{c[0] * now}, {now + x[0]}};
                  },
                  .derive =
                      [](T t) {
                        return Tensors{t[0], t[1], t[2] * 1};
                      }};
  if (subject.may_write) return expect_inputs_changed_as_by_loop(subject, loop);
  expect_refusal([&] { (void)loop.run_by(subject)(loop.inputs()); }, {"in place"});
}

}  // namespace

const std::vector<Check>& effect_checks() {
  static const std::vector<Check> kAll{
      {"InPlaceOnIntermediates", in_place_on_intermediates},
      {"InPlaceOnClonesOfArguments", in_place_on_clones_of_arguments},
      {"NoGradAndDetach", no_grad_and_detach},
      {"UnderNoGrad", under_no_grad},
      {"WithoutGradButEnabledInside", without_grad_but_enabled_inside},
      {"AutocastInside", autocast_inside},
      {"AutocastAround", autocast_around},
      {"CustomFunction", custom_function},
      {.name = "SecondOrderOfACustomFunctionIsRefused",
       .run = second_order_of_a_custom_function_is_refused,
       .needs_capture = true},
      {.name = "BatchNorm", .run = batch_norm, .needs_buffers = true},
      {.name = "LaterStepsSeeAChangedBuffer", .run = later_steps_see_a_changed_buffer, .needs_buffers = true},
      {"ChangingASavedOperandIsEagersError", changing_a_saved_operand_is_eagers_error},
      {"ChangingWhatBackwardDoesNotNeedIsFine", changing_what_backward_does_not_need_is_fine},
      {"AnExceptionLeavesNothingBehind", an_exception_leaves_nothing_behind},
      {.name = "ReadingAValueIsRefusedByName", .run = reading_a_value_is_refused_by_name, .needs_capture = true},
      {"AnArgumentChangedInPlace", an_argument_changed_in_place},
      {"ACapturedTensorChangedWithGrad", a_captured_tensor_changed_with_grad},
  };
  return kAll;
}

}  // namespace diptych::testing
