// What Diptych says of gradients that can't be taken, when they are asked for and no sooner.
#include "testing/refusal.h"

namespace diptych::testing {

using namespace detail;
namespace {

TEST(Grad, RefusesAFunctionOfMoreThanOneNumber) {
  const auto f = [](const at::Tensor& x) { return x * x; };
  expect_refusal([&] { (void)grad(f)(torch::ones({2})); }, {"[grad] the function returned", "of shape [2]",
                                                            "expected one floating-point number", "sum() or mean()"});
  expect_refusal([&] { (void)value_and_grad(f)(torch::ones({2})); }, {"[grad] the function returned"});
  expect_refusal([] { (void)grad([](const at::Tensor& x) { return x.argmax(); })(torch::ones({2})); },
                 {"[grad] the function returned", "expected one floating-point number"});
  expect_refusal([] { (void)grad([](const at::Tensor&) { return at::Tensor(); })(torch::ones({2})); },
                 {"[grad] the function returned an undefined tensor"});
}

TEST(Grad, RefusesALeafThatIsNotFloatingPoint) {
  using Params = std::vector<at::Tensor>;
  const auto f = [](const Params& p) { return (p[0] * p[1]).sum(); };
  expect_refusal(
      [&] {
        (void)grad(f)(Params{torch::ones({2}), torch::ones({2}, torch::kLong)});
      },
      {"[grad] leaf 'arg0.1' of the first argument has dtype Long", "move it to another argument"});
}

TEST(Grad, RefusesAnUndefinedLeaf) {
  using Params = std::vector<at::Tensor>;
  const auto f = [](const Params& p) { return p[0].sum(); };
  expect_refusal([&] { (void)grad(f)(Params{torch::ones({2}), at::Tensor()}); }, {"'arg0.1' is an undefined tensor"});
}

struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.pow(3);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& tangents) {
    return {tangents[0] * 3 * context->get_saved_variables()[0].pow(2)};
  }
};

// One result is computed from another, so the backward has two stages.
TEST(SecondOrder, RefusesAGradientThatDependsOnACustomFunctionInStages) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor y = Cube::apply(x);
    return std::pair(y, Cube::apply(y));
  });
  const auto x = ones_leaf({2});
  expect_refusal([&] { (void)torch::autograd::grad({f(x).second.sum()}, {x}, {}, true, /*create_graph=*/true); },
                 {"[second order] the gradient depends on the result of a torch.autograd.Function, and a graph does",
                  "without create_graph"});
  EXPECT_TRUE(at::equal(torch::autograd::grad({f(x).second.sum()}, {x})[0], 9 * x.pow(8)));
}

TEST(Backward, TwiceWithoutRetainingIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return (x * x).tanh(); });
  const auto x = ones_leaf({2});
  const auto y = f(x).sum();
  y.backward();
  expect_refusal<std::exception>([&] { y.backward(); }, {"Trying to backward through the graph a second time"});
}

TEST(Backward, OfAMutatedResidualIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x, const at::Tensor& w) { return x * w; });
  const auto x = ones_leaf({2});
  const auto w = torch::ones({2});
  const auto y = f(x, w).sum();
  w.add_(1);
  expect_refusal<c10::Error>(
      [&] { y.backward(); },
      {"one of the variables needed for gradient computation has been modified by an inplace operation",
       "the backward of the compiled function reads it"});
}

// The forward runs; eager's error comes with the backward, if that is asked for.
TEST(Backward, ThatEagerLacksIsRefusedOnlyWhenItIsAskedFor) {
  const auto function = [](const at::Tensor& x) {
    at::Tensor y = x.exp();
    y.sin();
    const at::Tensor z = y * y;
    y.add_(1);
    return z;
  };
  const auto x = ones_leaf({2});
  const auto f = aot_function(function);
  at::Tensor z = f(x).sum();
  EXPECT_TRUE(at::equal(z, function(x).sum()));
  expect_refusal<c10::Error>([&] { z.backward(); }, {"modified by an inplace operation"});
}

}  // namespace
}  // namespace diptych::testing
