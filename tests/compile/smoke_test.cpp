// The first things that a user of aot_function and capture does.
#include <torch/nn.h>
#include <torch/optim.h>
#include "diptych/pair/module.h"
#include "testing/as_near.h"
#include "testing/eager_check.h"

namespace diptych::testing {

using namespace detail;
namespace {

Tensors two_leaves() {
  return {torch::arange(6.0).reshape({2, 3}).requires_grad_(), torch::ones({2, 3}).mul(0.5).requires_grad_()};
}

TEST(Aot, GivesValuesAndGradientsOfEager) {
  expect_as_eager(two_leaves, [](const Tensors& t) -> Tensors { return {((t[0] * t[1] + t[0]).tanh() * t[1]).sum()}; });
}

TEST(Aot, ComputesMatrixProducts) {
  expect_as_eager(two_leaves, [](const Tensors& t) -> Tensors { return {t[0].matmul(t[1].t()).relu()}; });
}

TEST(Aot, DifferentiatesToSecondOrder) {
  torch::manual_seed(0);
  expect_gradients_right(
      {torch::randn({2, 3}, torch::kFloat64).requires_grad_(), torch::randn({2, 3}, torch::kFloat64).requires_grad_()},
      [](const Tensors& t) -> Tensors {
        return {(t[0] * t[1]).tanh() * t[0].exp(), t[0].matmul(t[1].t())};
      });
}

TEST(Aot, RunsByTheDefaultBackend) {
  EXPECT_EQ(AotOptions().backend, default_backend());
  EXPECT_EQ(AotOptions{.dynamic = true}.backend, default_backend());
}

TEST(Aot, KeepsNoArgumentAlive) {
  const auto f = aot_function([](const at::Tensor& x, const at::Tensor& w) { return (x * w).sum(); });
  const at::Tensor w = torch::ones({3}).requires_grad_();
  at::Tensor x = torch::ones({3});
  const c10::weak_intrusive_ptr<c10::TensorImpl> watched(x.getIntrusivePtr());
  f(x, w).backward();
  x = at::Tensor();
  EXPECT_TRUE(watched.expired());
}

TEST(Aot, FreesResidualsAfterTheBackward) {
  const auto f = aot_function([](const at::Tensor& x) { return (x.exp() * x).sum(); });
  at::Tensor x = torch::ones({3}).requires_grad_();
  const c10::weak_intrusive_ptr<c10::TensorImpl> watched(x.getIntrusivePtr());
  const at::Tensor y = f(x);
  y.backward();
  x = at::Tensor();
  // The leaf lives on only as long as the graph that accumulates into it.
  EXPECT_LE(watched.use_count(), 1U);
}

TEST(Capture, ShowsForwardAndBackward) {
  const auto x = torch::ones({2, 3}).requires_grad_();
  const auto w = torch::ones({3, 4}).requires_grad_();
  const Pair pair = capture([](const at::Tensor& a, const at::Tensor& b) { return a.matmul(b).tanh(); }, x, w);
  SCOPED_TRACE(pair.code());
  const auto [outputs, residuals] = pair.forward_call({x, w});
  const auto grads = pair.backward_call(residuals, {torch::ones({2, 4})});
  const auto in_eager = [](const Tensors& inputs) -> Tensors {
    const at::Tensor a = inputs[0].detach().requires_grad_(), b = inputs[1].detach().requires_grad_();
    const at::Tensor y = a.matmul(b).tanh();
    const auto gradients = torch::autograd::grad({y.sum()}, {a, b});
    return {y.detach(), gradients[0], gradients[1]};
  };
  EXPECT_TRUE(as_near_as_eager({outputs.at(0).detach(), grads.at(0), grads.at(1)}, in_eager, {x.detach(), w.detach()}));
}

TEST(Capture, SignatureTellsHowOutputsAlias) {
  const auto x = torch::ones({2, 3}).requires_grad_();
  const Pair pair = capture(
      [](const at::Tensor& a) {
        const at::Tensor y = a * 2;
        return std::vector<at::Tensor>{a, a.view({-1}), y, y.t(), a + 1};
      },
      x);
  EXPECT_EQ(pair.signature.alias_text(0), "output 0 is arg0");
  EXPECT_EQ(pair.signature.alias_text(1), "output 1 is a view of arg0");
  EXPECT_EQ(pair.signature.alias_text(2), "");
  EXPECT_EQ(pair.signature.alias_text(3), "output 3 is a view of output 2");
  EXPECT_EQ(pair.signature.alias_text(4), "");
  EXPECT_EQ(pair.signature.gradient_of("arg0"), 0U);
}

TEST(Capture, SlotsDoNotMoveWithTheBody) {
  struct Params {
    at::Tensor w, b;
    DIPTYCH_FIELDS(w, b)
  };
  const Params params{torch::ones({3}).requires_grad_(), torch::ones({3}).requires_grad_()};
  const auto uses_both = [](const Params& p, const at::Tensor& x) { return (p.b + x * p.w).sum(); };
  const auto uses_one = [](const Params& p, const at::Tensor& x) { return (x.exp() * p.b).sum(); };
  const AotOptions names{.argument_names = {"params", "x"}};
  for (const Pair& pair : {capture_with(names, uses_both, params, torch::ones({3})),
                           capture_with(names, uses_one, params, torch::ones({3}))}) {
    ASSERT_EQ(pair.forward.input_slots().size(), 3U);
    EXPECT_EQ(pair.forward.input_slots()[0].path, "params.w");
    EXPECT_EQ(pair.forward.input_slots()[1].path, "params.b");
    EXPECT_EQ(pair.forward.input_slots()[2].path, "x");
    EXPECT_EQ(pair.backward.outputs().size(), 3U);
    EXPECT_FALSE(pair.backward.outputs()[2]);
  }
}

TEST(Grad, GivesGradientsInTheTypeOfTheFirstArgument) {
  const std::map<std::string, at::Tensor> params{
      {"b", torch::ones({3})}, {"w", torch::full({3}, 2.0)}, {"unused", torch::ones({2})}};
  const auto loss = [](const std::map<std::string, at::Tensor>& p, const at::Tensor& x) {
    return (p.at("w") * x + p.at("b")).pow(2).sum();
  };
  const auto both = value_and_grad(loss);
  const at::Tensor x = torch::arange(3.0);
  for (int i = 0; i < 2; ++i) {
    const auto [value, grads] = both(params, x);
    EXPECT_TRUE(at::allclose(value, (params.at("w") * x + params.at("b")).pow(2).sum()));
    EXPECT_TRUE(at::allclose(grads.at("w"), 2 * (params.at("w") * x + params.at("b")) * x));
    EXPECT_TRUE(at::equal(grads.at("unused"), torch::zeros({2})));
    EXPECT_FALSE(grads.at("w").requires_grad());
  }
  EXPECT_EQ(both.stats().misses, 1U);
}

TEST(Grad, IsItselfDifferentiable) {
  const auto second =
      grad([](const at::Tensor& x) { return grad([](const at::Tensor& y) { return y.pow(3).sum(); })(x).sum(); });
  const at::Tensor x = torch::arange(3.0);
  EXPECT_TRUE(at::allclose(second(x), 6 * x));
}

// Five steps of the network below, from parameters and batches.
Tensors trained(const Tensors& given) {
  Tensors parameters(given.begin(), given.begin() + 4);
  for (size_t step = 4; step < given.size(); ++step) {
    for (at::Tensor& parameter : parameters) parameter = parameter.detach().requires_grad_();
    const at::Tensor hidden = torch::linear(given[step], parameters[0], parameters[1]).tanh();
    const auto loss = torch::linear(hidden, parameters[2], parameters[3]).pow(2).sum();
    const auto gradients = torch::autograd::grad({loss}, parameters);
    for (size_t i = 0; i < 4; ++i) parameters[i] = parameters[i].detach() - gradients[i] * 0.1;
  }
  return parameters;
}

TEST(AotModule, TrainsAsTheModuleItself) {
  torch::manual_seed(1);
  torch::nn::Sequential ours(torch::nn::Linear(4, 8), torch::nn::Tanh(), torch::nn::Linear(8, 2));
  Tensors given;
  for (const at::Tensor& parameter : ours->parameters()) given.push_back(parameter.detach().clone());
  const auto f = aot_function([&](const at::Tensor& x) { return ours->forward(x); });
  auto compiled = aot_module(torch::nn::Linear(4, 2));
  EXPECT_EQ(compiled(torch::ones({3, 4})).sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(compiled.captures().at(0)->forward_graph().input_slots().at(0).path, "module.weight");
  torch::optim::SGD optimizer(ours->parameters(), 0.1);
  for (int i = 0; i < 5; ++i) {
    given.push_back(torch::randn({3, 4}));
    optimizer.zero_grad();
    f(given.back()).pow(2).sum().backward();
    optimizer.step();
  }
  Tensors parameters;
  for (const at::Tensor& parameter : ours->parameters()) parameters.push_back(parameter.detach());
  EXPECT_TRUE(as_near_as_eager(parameters, trained, given));
  EXPECT_EQ(f.stats().misses, 1U);
}

TEST(Cache, MissesAreNamedAndOldEntriesGo) {
  const auto f = aot_function([](const at::Tensor& x, int64_t k) { return x * k; }, {.cache_limit = 2});
  f(torch::ones({2}), 1);
  f(torch::ones({3}), 1);
  EXPECT_NE(f.stats().last_miss.find("arg0: size was [2], is [3]"), std::string::npos) << f.stats().last_miss;
  f(torch::ones({3}), 2);
  EXPECT_NE(f.stats().last_miss.find("arg1"), std::string::npos) << f.stats().last_miss;
  EXPECT_EQ(f.stats().entries, 2U);
  EXPECT_EQ(f.stats().evictions, 1U);
  {
    const torch::NoGradGuard guard;
    f(torch::ones({3}), 2);
  }
  EXPECT_NE(f.stats().last_miss.find("grad mode was on, is off"), std::string::npos) << f.stats().last_miss;
}

TEST(Compilers, AnyCallableCompilesForwardBackwardAndInference) {
  std::vector<std::string> compiled;
  const auto recording = [&](const char* role) -> Compiler {
    return [&compiled, role](const Graph& graph) {
      compiled.emplace_back(role);
      return backend_by_name("interpreter")->compile(graph);
    };
  };
  const auto f =
      aot_function([](const at::Tensor& x) { return x.sin().sum(); }, {.forward_compiler = recording("forward"),
                                                                       .backward_compiler = recording("backward"),
                                                                       .inference_compiler = recording("inference")});
  const at::Tensor x = torch::ones({3}).requires_grad_();
  const at::Tensor y = f(x);
  EXPECT_EQ(compiled, std::vector<std::string>({"forward"}));
  y.backward();
  EXPECT_EQ(compiled, std::vector<std::string>({"forward", "backward"}));
  f(torch::ones({3}));
  EXPECT_EQ(compiled, std::vector<std::string>({"forward", "backward", "inference"}));
}

TEST(Decompositions, NamedOperatorsAreTakenApart) {
  const auto g = [](const at::Tensor& x) { return torch::gelu(x).sum(); };
  const at::Tensor x = torch::randn({8}, torch::kFloat64).requires_grad_();
  const auto f = aot_function(g, {.decompositions = {"all"}});
  const at::Tensor y = torch::randn({8}, torch::kFloat64).copy_(x.detach()).requires_grad_();
  f(x).backward();
  g(y).backward();
  EXPECT_TRUE(at::allclose(x.grad(), y.grad()));
  EXPECT_EQ(f.captures().at(0)->forward_graph().code().find("aten.gelu"), std::string::npos);
}

}  // namespace
}  // namespace diptych::testing
