// A pair called in the place of its function: values, gradients of any order, mutation and random numbers are the
// function's, in eager, compiled, and after a way through a file.
#include "diptych/pair/pair_call.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "testing/eager_check.h"
#include "testing/expect_error.h"

namespace diptych::testing {
namespace {

Pair through_file(const Pair& pair) {
  const auto path = std::filesystem::temp_directory_path() / ("diptych_pair_call_" + std::to_string(::getpid()));
  save(pair, path.string());
  Pair loaded = load_pair(path.string());
  std::filesystem::remove(path);
  return loaded;
}

/// Expects that the pair of `function`, as it is and from a file, in eager and compiled, does what the function does.
void expect_pair_as_function(const Inputs& inputs, const Function& function) {
  const Pair pair = capture(function, inputs.derive(inputs.leaves()));
  for (const Pair& each : {pair, through_file(pair)}) {
    const Function called = [&each](const Tensors& arguments) { return call_pair(each, arguments); };
    expect_alike(inputs, function, called);
    expect_compiled_as(inputs, function, called);
    expect_compiled_as(inputs, function, called, {.aot = {.partition = min_cut()}});
  }
}

Tensors regression_leaves() {
  torch::manual_seed(1);
  return {torch::randn({5, 4}).requires_grad_(), torch::randn({5}).requires_grad_(), torch::randn({3, 4})};
}

TEST(PairCall, DoesWhatItsFunctionDoes) {
  const at::Tensor scale = torch::tensor({2.0F});
  expect_pair_as_function({regression_leaves}, [&](const Tensors& in) -> Tensors {
    const at::Tensor hidden = at::gelu(at::linear(in[2], in[0], in[1])) * scale;
    return {hidden.square().mean(), hidden * in[0].sum(), hidden.argmax(1), hidden.detach() * 2};
  });
}

// aten.nll_loss_backward refuses a total weight that requires grad.
TEST(PairCall, HasResidualsThatAreNotDifferentiable) {
  const auto leaves = [] {
    torch::manual_seed(2);
    return Tensors{torch::randn({6, 3}).requires_grad_(), torch::tensor({0, 2, 1, 1, 0, 2})};
  };
  expect_pair_as_function({leaves}, [](const Tensors& in) -> Tensors {
    return {at::cross_entropy_loss(at::layer_norm(in[0], {3}), in[1])};
  });
}

TEST(PairCall, ChangesTheInputsThatItsFunctionChanges) {
  const auto leaves = [] {
    torch::manual_seed(3);
    return Tensors{torch::randn({4, 2, 3}).requires_grad_(), torch::zeros({2}), torch::ones({2})};
  };
  expect_pair_as_function({leaves}, [](const Tensors& in) -> Tensors {
    return {at::batch_norm(in[0], {}, {}, in[1], in[2], /*training=*/true, 0.1, 1e-5, false).square()};
  });
}

TEST(PairCall, GivesBackAnInputThatItsFunctionGivesBack) {
  const Function function = [](const Tensors& in) -> Tensors { return {in[0], in[0].sin()}; };
  const at::Tensor x = torch::ones({2}).requires_grad_();
  EXPECT_TRUE(call_pair(capture(function, Tensors{x}), {x})[0].is_same(x));
}

Inputs derived_from_a_leaf() {
  return {[] {
            return Tensors{torch::tensor({1.0F, 2.0F}).requires_grad_()};
          },
          [](const Tensors& leaves) { return Tensors{leaves[0] * 3}; }};
}

Tensors double_under_no_grad(const Tensors& in) {
  {
    const at::NoGradGuard guard;
    in[0].mul_(2);
  }
  return {in[0].square().sum()};
}

TEST(PairCall, ChangesUnderNoGradLeaveTheHistoryOfAnInput) {
  expect_pair_as_function(derived_from_a_leaf(), double_under_no_grad);
  const Inputs inputs = derived_from_a_leaf();
  const Pair pair = capture(double_under_no_grad, inputs.derive(inputs.leaves()));
  const auto called = [&](const Tensors& in) { return call_pair(pair, in); };
  for (const Function& each : {Function(double_under_no_grad), Function(called), Function(aot_function(called))}) {
    const Tensors leaves = inputs.leaves(), in = inputs.derive(leaves);
    const auto history = in[0].grad_fn();
    const auto version = in[0]._version();
    each(in);
    EXPECT_EQ(in[0].grad_fn(), history);
    EXPECT_EQ(in[0]._version(), version + 1);
    EXPECT_TRUE(in[0].equal(torch::tensor({6.0F, 12.0F})));
    in[0].sum().backward();
    EXPECT_TRUE(leaves[0].grad().equal(torch::full({2}, 3.0F)));
  }
}

TEST(PairCall, ChangesALeafUnderNoGrad) {
  const auto leaves = [] {
    torch::manual_seed(5);
    return Tensors{torch::ones({3}).requires_grad_(), torch::rand({3})};
  };
  expect_pair_as_function({leaves}, [](const Tensors& in) -> Tensors {
    const at::Tensor loss = (in[0] * in[1]).sum();
    const at::NoGradGuard guard;
    in[0].sub_(in[1], 0.1);
    return {loss};
  });
}

TEST(PairCall, ChangesWithGradientsGiveAnInputTheirHistory) {
  expect_pair_as_function(derived_from_a_leaf(), [](const Tensors& in) -> Tensors {
    in[0].mul_(in[0].detach().cos());
    return {in[0].sum(), in[0].sin()};
  });
}

// As custom_vjp has it, and so without gradients, too.
TEST(PairCall, OutputsShareNoMemory) {
  const Function function = [](const Tensors& in) -> Tensors {
    const at::Tensor own = in[0] * 2;
    return {in[0].view({-1}), in[0].t(), own, own.select(0, 0), in[0].detach(), in[1][0]};
  };
  const at::Tensor plain = torch::ones({2, 3}), leaf = torch::ones({2, 3}).requires_grad_(), row = torch::ones({1, 2});
  for (const at::Tensor& example : {plain, leaf}) {
    const Pair pair = capture(function, Tensors{example, row});
    const Function called = [&](const Tensors& in) { return call_pair(pair, in); };
    for (const Function& each : {called, Function(aot_function(called))}) {
      for (const bool gradients : {false, true}) {
        SCOPED_TRACE(fmt::format("requires grad {}, gradients {}", example.requires_grad(), gradients));
        const at::AutoGradMode mode(gradients);
        const Tensors results = each({example, row}), wanted = function({example, row});
        for (size_t i = 0; i < results.size(); ++i) {
          EXPECT_TRUE(results[i].equal(wanted[i])) << i;
          EXPECT_EQ(results[i].requires_grad(), gradients && wanted[i].requires_grad()) << i;
          for (const at::Tensor& other : {example, row}) EXPECT_FALSE(results[i].is_alias_of(other)) << i;
          for (size_t j = 0; j < i; ++j) EXPECT_FALSE(results[i].is_alias_of(results[j])) << i << " and " << j;
        }
      }
    }
  }
}

// What a view is to the forward graph says nothing of its gradient.
struct Reversal : torch::autograd::Function<Reversal> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.view_as(x); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list tangents) {
    return {-tangents[0]};
  }
};

TEST(PairCall, GivesAViewTheGradientOfItsFunction) {
  const Function function = [](const Tensors& in) -> Tensors { return {Reversal::apply(in[0])}; };
  const at::Tensor x = torch::ones({2}).requires_grad_();
  for (const Pair& pair : {capture(function, Tensors{x}), through_file(capture(function, Tensors{x}))}) {
    const auto gradient = torch::autograd::grad({call_pair(pair, {x})[0].sum()}, {x})[0];
    EXPECT_TRUE(gradient.equal(torch::full({2}, -1.0F))) << gradient;
  }
}

TEST(PairCall, GivesNoGradientToWhatHadNoneAtTheCapture) {
  const Function function = [](const Tensors& in) -> Tensors { return {in[0] * 2}; };
  const Pair pair = capture(function, Tensors{torch::ones({2})});
  const Function called = [&](const Tensors& in) { return call_pair(pair, in); };
  const at::Tensor leaf = torch::ones({2}).requires_grad_();
  EXPECT_FALSE(called({leaf})[0].requires_grad());
  EXPECT_FALSE(aot_function(called)(Tensors{leaf})[0].requires_grad());
}

TEST(PairCall, KeepsTheShapesOfInputs) {
  const Function changes = [](const Tensors& in) -> Tensors {
    in[1].t_();
    return {in[0] * 2};
  };
  const Tensors inputs{torch::ones({2}), torch::ones({2, 3})};
  EXPECT_EQ(message_of([&] { capture_with({.argument_names = {"t"}}, changes, inputs); }),
            "[capture] the function changes the shape of 't.1' in place, from [2,3] to [3,2], which the graphs of a "
            "pair can't do to a caller's tensor; use an out-of-place operator, or aot_function()");
  expect_pair_as_function({[] {
                            return Tensors{torch::ones({2, 3})};
                          }},
                          [](const Tensors& in) -> Tensors {
                            in[0].t_();
                            in[0].mul_(3);
                            in[0].t_();
                            return {in[0] * 2};
                          });
}

TEST(PairCall, IsDifferentiatedAgain) {
  const auto f = [](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sin().exp(), in[0].tanh() * in[0]}; };
  const auto leaf = [] { return torch::randn({3}, at::kDouble).requires_grad_(); };
  torch::manual_seed(4);
  const Tensors inputs{leaf(), leaf()};
  const Pair pair = through_file(capture(f, inputs));
  const auto called = [&](const Tensors& in) { return call_pair(pair, in); };
  expect_derivatives_right(inputs, called);
  expect_gradients_right(inputs, called);
}

TEST(PairCall, KeepsTheBackwardThatWasCaptured) {
  const auto forward = [](const at::Tensor& x) { return x.sin(); };
  const auto odd = custom_vjp(
      forward, [](const at::Tensor& x) { return std::pair(x.sin(), x.clone()); },
      [](const at::Tensor& x, const at::Tensor& tangent) { return std::tuple(tangent * x * 100); });
  const at::Tensor x = torch::tensor({1.0F, 2.0F}).requires_grad_();
  const Pair pair = through_file(capture([&](const at::Tensor& t) { return odd(t); }, x));
  const auto gradient = torch::autograd::grad({call_pair(pair, {x})[0].sum()}, {x})[0];
  EXPECT_TRUE(gradient.equal(torch::tensor({100.0F, 200.0F})));
}

TEST(PairCall, DrawsWhatItsFunctionDraws) {
  const Function function = [](const Tensors& in) -> Tensors { return {at::dropout(in[0] * 3, 0.5, true).sum()}; };
  const at::Tensor x = torch::rand({64}).requires_grad_();
  const Pair pair = through_file(capture(function, Tensors{x}));
  const Function called = [&](const Tensors& in) { return call_pair(pair, in); };
  const auto compiled = aot_function(called);
  const auto run = [&](const auto& f) {
    torch::manual_seed(7);
    const at::Tensor value = f(Tensors{x})[0];
    return std::pair(value, torch::autograd::grad({value}, {x})[0]);
  };
  const auto [value, gradient] = run(function);
  for (int call = 0; call < 2; ++call) {
    EXPECT_TRUE(run(called).first.equal(value));
    EXPECT_TRUE(run(called).second.equal(gradient));
    EXPECT_TRUE(run(compiled).first.equal(value));
    EXPECT_TRUE(run(compiled).second.equal(gradient));
  }
  torch::manual_seed(7);
  EXPECT_TRUE(pair.forward_call({x}).outputs[0].equal(value));
}

TEST(PairCall, RefusesWhatThePairWasNotCapturedFor) {
  const at::Tensor x = torch::ones({2}).requires_grad_();
  const Pair pair = capture_with(
      {.argument_names = {"weight"}}, [](const at::Tensor& t) { return t.sin(); }, x);
  const auto message = [&](const Tensors& arguments) { return message_of([&] { call_pair(pair, arguments); }); };
  EXPECT_EQ(message({x, x}), "[call_pair] got 2 tensors, expected the 1 flattened arguments; see pair.signature");
  EXPECT_EQ(message({at::Tensor()}), "[call_pair] input 0 (weight) is undefined, expected f32[2]; pass a tensor");
  EXPECT_EQ(message({torch::ones({3})}),
            "[call_pair] input 0 (weight) is f32[3], expected f32[2]; convert it, or capture again for such tensors");
  EXPECT_EQ(message({torch::ones({2}, at::kDouble)}),
            "[call_pair] input 0 (weight) is f64[2], expected f32[2]; convert it, or capture again for such tensors");
}

}  // namespace
}  // namespace diptych::testing
