// torch::autograd::Functions inside a compiled function: their own backward is traced.
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

struct ScaledIdentity : torch::autograd::Function<ScaledIdentity> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    // Deliberately not the derivative of the forward.
    return {grads[0] * 10 * context->get_saved_variables()[0]};
  }
};

struct CubeByRule : torch::autograd::Function<CubeByRule> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.pow(3);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    return {grads[0] * 3 * context->get_saved_variables()[0].pow(2)};
  }
};

struct TripledView : torch::autograd::Function<TripledView> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.view({-1}); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {grads[0] * 3};
  }
};

struct Unmaterialized : torch::autograd::Function<Unmaterialized> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->set_materialize_grads(false);
    return {x * 2, x * 3};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    at::Tensor result;
    if (grads[0].defined()) result = grads[0] * 5;
    if (grads[1].defined()) result = result.defined() ? result + grads[1] : grads[1] * 7;
    return {result};
  }
};

TEST(CustomFunctions, CustomBackwardIsTracedAndNotDerived) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {ScaledIdentity::apply(t[0]) * t[1]}; });
}

// A Function meets the tensor itself and not its stand-in, since no operator is called before autograd looks at it.
TEST(CustomFunctions, OfTensorsThatTheFunctionCaptures) {
  for (const bool is_leaf : {true, false}) {
    for (const bool is_used_besides : {true, false}) {
      at::Tensor gradients[2];
      for (const bool is_compiled : {false, true}) {
        const at::Tensor leaf = at::arange(3, at::kDouble).requires_grad_();
        const at::Tensor w = is_leaf ? leaf : leaf * 3;
        const auto function = [&](const at::Tensor& x) {
          const at::Tensor y = ScaledIdentity::apply(w) * x;
          return (is_used_besides ? y + w.sin() * leaf : y).sum();
        };
        const at::Tensor x = at::ones(3, at::kDouble) * 2;
        (is_compiled ? aot_function(function)(x) : function(x)).backward();
        gradients[is_compiled] = leaf.grad();
      }
      ASSERT_TRUE(gradients[1].defined()) << is_leaf << is_used_besides;
      EXPECT_TRUE(at::allclose(gradients[0], gradients[1])) << is_leaf << is_used_besides;
    }
  }
}

TEST(CustomFunctions, UnmaterializedGradientsStayUndefined) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {Unmaterialized::apply(t[0])[0] * t[1]}; });
  expect_as_eager(two, [](const Tensors& t) -> Tensors { return {Unmaterialized::apply(t[0])[1]}; });
}

// The rule reads inputs alone: its second derivative is that of what it computes.
TEST(CustomFunctions, SecondOrderOfARuleThatReadsInputs) {
  const auto function = [](const at::Tensor& x) { return CubeByRule::apply(x); };
  const at::Tensor x = leaf({3});
  const auto second = [&](const at::Tensor& y) {
    const at::Tensor first = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.sum()}, {x})[0];
  };
  EXPECT_TRUE(at::equal(second(aot_function(function)(x)), second(function(x))));
}

TEST(CustomFunctions, SecondOrderThroughACustomFunctionIsThatOfItsBackward) {
  const auto function = [](const at::Tensor& x) { return ScaledIdentity::apply(x).square().sum(); };
  const at::Tensor x = leaf({3});
  const auto second = [&](const at::Tensor& y) {
    const at::Tensor first = torch::autograd::grad({y}, {x}, {}, true, /*create_graph=*/true)[0];
    return torch::autograd::grad({first.square().sum()}, {x})[0];
  };
  EXPECT_TRUE(at::allclose(second(aot_function(function)(x)), second(function(x))));
}

// The gradient is the Function's, and not that of the view that it gives.
TEST(CustomFunctions, AViewThatAFunctionGivesKeepsTheFunctionsGradient) {
  for (const bool of_an_input : {true, false}) {
    expect_as_eager(two, [of_an_input](const Tensors& t) -> Tensors {
      return {TripledView::apply(of_an_input ? t[0] : t[0] * t[1]), t[1] * 2};
    });
  }
}

TEST(CustomFunctions, AViewThatAFunctionGivesMayNotBeChanged) {
  const auto f = aot_function([](const at::Tensor& x) { return TripledView::apply(x); });
  const at::Tensor base = leaf({2, 3}) * 1;
  const at::Tensor view = f(base);
  EXPECT_TRUE(view.is_view() && view.is_alias_of(base));
  expect_error<c10::Error>([&] { view.mul_(2); }, "custom Function");
}

}  // namespace
}  // namespace diptych::testing
