// What is computed before a value is asked for is computed once: the questions of a call hand it on to its forward.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/record_function.h>

#include <random>

#include "testing/eager_check.h"

namespace diptych::testing {
namespace {

thread_local size_t num_products = 0;

std::unique_ptr<at::ObserverContext> count_product(const at::RecordFunction& call) {
  const std::string_view name = call.name();
  if (name == "aten::mm" || name == "aten::addmm" || name == "aten::bmm") ++num_products;
  return nullptr;
}

// Returns how many matrix products run meanwhile.
template <class F>
size_t products_of(const F& run) {
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_product).scopes({at::RecordScope::FUNCTION}));
  num_products = 0;
  run();
  at::removeCallback(handle);
  return num_products;
}

at::Tensor matrix(int64_t seed) {
  auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return at::randn({3, 3}, generator, at::kDouble);
}

/// What one call does.
struct Call {
  Tensors arguments, results, gradients;
  at::Tensor generator;
  size_t products = 0;  ///< of the forward
};

Call run_call(const Function& function, const Tensors& arguments) {
  torch::manual_seed(3);
  Call call;
  for (const at::Tensor& argument : arguments) call.arguments.push_back(argument.clone().requires_grad_());
  Tensors given;
  for (const at::Tensor& argument : call.arguments) given.push_back(argument * 1);  // no leaf, so it may be written to
  call.products = products_of([&] { call.results = function(given); });
  call.generator = at::detail::getDefaultCPUGenerator().get_state();
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (const Tensors& part : {call.results, given}) {
    for (const at::Tensor& tensor : part) loss = loss + (tensor * tensor).sum();
  }
  call.gradients = torch::autograd::grad({loss}, call.arguments, {}, {}, false, /*allow_unused=*/true);
  call.arguments = given;
  return call;
}

void expect_same(const Tensors& got, const Tensors& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined());
    if (got[i].defined()) {
      EXPECT_TRUE(at::allclose(got[i], expected[i], 1e-9, 1e-9)) << got[i] << "\nexpected\n" << expected[i];
    }
  }
}

Call expect_call_as_eager(const Function& function, const Function& compiled, const Tensors& arguments) {
  const Call eager = run_call(function, arguments), ours = run_call(compiled, arguments);
  expect_same(ours.results, eager.results);
  expect_same(ours.gradients, eager.gradients);
  expect_same(ours.arguments, eager.arguments);
  EXPECT_TRUE(at::equal(ours.generator, eager.generator));
  return ours;
}

class Segments : public ::testing::TestWithParam<const char*> {
 protected:
  Aot<Function> compiled(const Function& function) { return aot_function(function, {.backend = GetParam()}); }
};

INSTANTIATE_TEST_SUITE_P(Backends, Segments, ::testing::Values("native", "interpreter"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Segments, ProductsBeforeAQuestionRunOnce) {
  const Function f = [](const Tensors& a) -> Tensors {
    const at::Tensor y = at::layer_norm(a[0].mm(a[1]), {3}).tanh().mm(a[1]);
    if ((y.sum() > 0).item<bool>()) return {y.mm(a[0]).sin()};
    return {y.cos()};
  };
  const auto ours = compiled(f);
  for (int64_t seed = 0; seed < 12; ++seed) expect_call_as_eager(f, ours, {matrix(seed), matrix(seed + 10)});
  const Tensors arguments{matrix(0), matrix(10)};
  EXPECT_EQ(expect_call_as_eager(f, ours, arguments).products, run_call(f, arguments).products);
  EXPECT_EQ(ours.stats().entries, 2U);
}

TEST_P(Segments, ALaterQuestionTakesWhatAnEarlierOneComputed) {
  const Function f = [](const Tensors& a) -> Tensors {
    const at::Tensor y = a[0].mm(a[1]);
    if ((y.sum() > 100).item<bool>()) return {y};
    const at::Tensor z = y.sigmoid().mm(a[0]).mm(a[1]);
    if ((z.sum() > 100).item<bool>()) return {z};
    return {z.mm(y), y};
  };
  const auto ours = compiled(f);
  for (int call = 0; call < 3; ++call) {
    const Call made = expect_call_as_eager(f, ours, {matrix(call), matrix(call + 10)});
    if (call > 0) EXPECT_EQ(made.products, 4U);
  }
}

TEST_P(Segments, WhatDependsOnADrawIsComputedAgainFromTheSameNumbers) {
  const Function f = [](const Tensors& a) -> Tensors {
    const at::Tensor y = a[0].mm(a[1]);
    const at::Tensor dropped = at::dropout(y, 0.5, /*train=*/true);
    const at::Tensor z = dropped.mm(a[1]);
    if ((z.sum() > 0).item<bool>()) return {z * at::rand_like(z), dropped};
    return {z.sin() * at::rand_like(z)};
  };
  const auto ours = compiled(f);
  for (int64_t seed = 0; seed < 6; ++seed) expect_call_as_eager(f, ours, {matrix(seed), matrix(seed + 10)});
}

TEST_P(Segments, WritesBeforeAQuestionHappenOnce) {
  const Function f = [](const Tensors& a) -> Tensors {
    a[0].mul_(2);
    const at::Tensor y = a[0].mm(a[1] * 2);
    a[1].add_(y);
    if ((y.mm(a[1]).sum() > 0).item<bool>()) return {a[1].mm(y)};
    return {a[1].exp()};
  };
  const auto ours = compiled(f);
  for (int64_t seed = 0; seed < 6; ++seed) expect_call_as_eager(f, ours, {matrix(seed), matrix(seed + 10)});
}

TEST_P(Segments, EqualResultsAreTensorsOfTheirOwn) {
  const Function f = [](const Tensors& a) -> Tensors {
    const at::Tensor y = a[0].mm(a[1]);
    if ((y.sum() > 1e9).item<bool>()) return {y};
    return {y, a[0].mm(a[1]), y.t()};
  };
  const auto ours = compiled(f);
  const Tensors arguments{matrix(1), matrix(2)};
  const Tensors expected = f(arguments);
  for (int call = 0; call < 3; ++call) {
    const Tensors results = ours(arguments);
    expect_same(results, expected);
    results[0].fill_(7);
    expect_same({results[1], results[2]}, {expected[1], at::full({3, 3}, 7, at::kDouble)});
  }
}

TEST_P(Segments, ALoopBeforeAQuestionRunsOnce) {
  const Function f = [](const Tensors& a) -> Tensors {
    const auto [last, rows] =
        scan([&](const at::Tensor& c, const at::Tensor& x) { return std::pair(c.matmul(a[1]).tanh() + x, c * x); },
             a[0][0], a[0]);
    if ((last.sum() > 0).item<bool>()) return {last, rows.mm(a[1])};
    return {rows.sin()};
  };
  const auto ours = compiled(f);
  for (int64_t seed = 0; seed < 6; ++seed) expect_call_as_eager(f, ours, {matrix(seed), matrix(seed + 10)});
}

TEST_P(Segments, GradientsOfTheSecondOrder) {
  const Function f = [](const Tensors& a) -> Tensors {
    const at::Tensor y = a[0].mm(a[1]).sin();
    if ((y.sum() > 100).item<bool>()) return {y};
    return {y.mm(a[0]).exp().sum()};
  };
  const auto ours = compiled(f);
  for (int call = 0; call < 3; ++call) {
    const auto second = [&](const Function& function) {
      const Tensors a{matrix(call).requires_grad_(), matrix(call + 10).requires_grad_()};
      const auto first = torch::autograd::grad({function(a)[0]}, a, {}, std::nullopt, /*create_graph=*/true);
      return torch::autograd::grad({first[0].square().sum() + first[1].sin().sum()}, a);
    };
    expect_same(second(ours), second(f));
  }
}

// A program of products, elementwise operators, draws, writes and questions, told by a seed.
Tensors random_program(uint64_t seed, const Tensors& a) {
  std::mt19937_64 choose(seed);
  const auto below = [&](size_t count) { return static_cast<size_t>(choose() % count); };
  Tensors values = a;
  const auto any = [&]() -> at::Tensor& { return values[below(values.size())]; };
  const size_t num_steps = 4 + below(8);
  for (size_t step = 0; step < num_steps; ++step) {
    switch (below(9)) {
      case 0:
      case 1:
      case 2:
        values.push_back(any().mm(any()).tanh());
        break;
      case 3:
        values.push_back(any().sin() + any());
        break;
      case 4:
        values.push_back(any() * at::rand({3, 3}, at::kDouble));
        break;
      case 5:
        any().mul_(0.75);
        break;
      case 6:
        values.push_back(any().t());
        break;
      default:
        if ((any().sum() > 0).item<bool>()) {
          values.push_back(any().mm(any()));
        } else {
          values.push_back(any().cos());
        }
    }
  }
  return {values.end() - static_cast<std::ptrdiff_t>(std::min<size_t>(3, values.size() - a.size())), values.end()};
}

// Whether eager has a gradient: not if something is changed that it needs.
bool has_gradient(const Function& function, const Tensors& arguments) {
  try {
    run_call(function, arguments);
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

TEST_P(Segments, RandomPrograms) {
  size_t num_run = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(seed);
    const Function f = [seed](const Tensors& a) { return random_program(seed, a); };
    const auto ours = compiled(f);
    for (const int64_t data : {1, 2, 1, 3, 2}) {
      const Tensors arguments{matrix(data), matrix(data + 10)};
      if (!has_gradient(f, arguments)) continue;
      expect_call_as_eager(f, ours, arguments);
      ++num_run;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(num_run, 200U);
}

}  // namespace
}  // namespace diptych::testing
