// Derivatives of dp::associative_scan, of any order and with free variables, and what it saves for them.
#include "hops/associative_operators.h"
#include "hops/live_bytes.h"

namespace diptych::testing {
namespace {

Tensors leaves_like(const Tensors& xs) {
  Tensors leaves;
  for (const auto& x : xs) leaves.push_back(x.detach().clone().requires_grad_());
  return leaves;
}

// A number in which every element has a weight of its own.
at::Tensor weigh(const Tensors& tensors) {
  at::Tensor total = torch::zeros({}, torch::kFloat64);
  for (const auto& tensor : tensors) {
    if (!tensor.defined()) continue;
    total =
        total + (tensor * torch::arange(tensor.numel(), torch::kFloat64).add(0.3).cos().reshape(tensor.sizes())).sum();
  }
  return total;
}

// The gradients of order 1 to `order`, each of a number made of those before.
std::vector<Tensors> derivatives(const Function& f, const Tensors& xs, int order) {
  std::vector<Tensors> result;
  at::Tensor value = weigh(f(xs));
  for (int i = 0; i < order && value.requires_grad(); ++i) {
    result.push_back(
        torch::autograd::grad({value}, xs, {}, true, /*create_graph=*/i + 1 < order, /*allow_unused=*/true));
    for (size_t k = 0; k < xs.size(); ++k) {
      if (!result.back()[k].defined()) result.back()[k] = torch::zeros_like(xs[k]);
    }
    value = weigh(result.back());
  }
  return result;
}

void expect_same_derivatives(const Function& expected, const Function& got, const Tensors& xs, int order) {
  const auto wanted = derivatives(expected, xs, order);
  const auto ours = derivatives(got, xs, order);
  ASSERT_GE(wanted.size(), 1U);
  for (size_t i = 0; i < wanted.size(); ++i) {
    SCOPED_TRACE(c10::str("order ", i + 1));
    EXPECT_TRUE(same_tensors(i < ours.size() ? ours[i] : leaves_like(xs), wanted[i], within(1e-8)));
  }
}

TEST(AssociativeScanGradients, AgreeWithTheLoopToTheSecondOrder) {
  torch::manual_seed(1);
  for (const auto& op : associative_operators()) {
    for (const bool reverse : {false, true}) {
      for (const int64_t length : {1, 2, 3, 5, 7, 8, 9, 17}) {
        SCOPED_TRACE(c10::str(op.name, ", length ", length, reverse ? " in reverse" : ""));
        const AssociativeScanOptions options{.reverse = reverse};
        expect_same_derivatives([&](const Tensors& xs) { return scan_by_loop(op.f, xs, options); },
                                [&](const Tensors& xs) { return associative_scan(op.f, xs, options); },
                                leaves_like(random_elements(op, length, 0)), 2);
      }
    }
  }
}

TEST(AssociativeScanGradients, AgreeWithTheLoopToTheThirdOrderEagerAndCompiled) {
  torch::manual_seed(2);
  const auto affine = affine_operator();
  const Function by_loop = [&](const Tensors& xs) { return scan_by_loop(affine.f, xs); };
  const Function by_scan = [&](const Tensors& xs) { return associative_scan(affine.f, xs); };
  const auto compiled = aot_function(by_scan);
  const Tensors xs = leaves_like(random_elements(affine, 6, 0));
  expect_same_derivatives(by_loop, by_scan, xs, 3);
  expect_same_derivatives(
      by_loop, [&](const Tensors& t) { return compiled(t); }, xs, 3);
}

TEST(AssociativeScanGradients, AgreeWithDifferencesToTheSecondOrder) {
  torch::manual_seed(3);
  for (const auto& op : associative_operators()) {
    for (const int64_t length : {2, 3, 6}) {
      SCOPED_TRACE(c10::str(op.name, ", length ", length));
      const auto f = [&](const Tensors& xs) { return associative_scan(op.f, xs, {.reverse = length == 3}); };
      // Second derivatives that are all zero have no graph, in eager too.
      const bool is_linear = op.name == "sum" || op.name == "maximum" || op.name == "first" || op.name == "last";
      expect_gradients_right(leaves_like(random_elements(op, length, 0)), f, !is_linear);
    }
  }
}

TEST(AssociativeScanGradients, ReachFreeVariables) {
  torch::manual_seed(4);
  const auto weight = torch::rand({3}, torch::kFloat64).requires_grad_();
  const auto constant = torch::rand({3}, torch::kFloat64);
  // Associative for every weight: (a, b) -> a + b + weight * a * b.
  const Combine f = [&](const Tensors& a, const Tensors& b) -> Tensors {
    return {a[0] + b[0] + weight * constant * a[0] * b[0]};
  };
  const auto gradients = [&](const Function& scan) {
    const auto x = torch::linspace(-1, 1, 21, torch::kFloat64).reshape({7, 3}).requires_grad_();
    const auto first = torch::autograd::grad({weigh(scan({x}))}, {x, weight}, {}, true, true);
    const auto second = torch::autograd::grad({weigh(first)}, {x, weight});
    return Tensors{first[0], first[1], second[0], second[1]};
  };
  const Function by_scan = [&](const Tensors& xs) { return associative_scan(f, xs); };
  const auto compiled = aot_function(by_scan);
  const Tensors wanted = gradients([&](const Tensors& xs) { return scan_by_loop(f, xs); });
  EXPECT_TRUE(same_tensors(gradients(by_scan), wanted, within(1e-9)));
  EXPECT_TRUE(same_tensors(gradients([&](const Tensors& xs) { return compiled(xs); }), wanted, within(1e-9)));
}

TEST(AssociativeScanGradients, ReachFreeVariablesWhereNoElementRequiresGrad) {
  const auto weight = torch::tensor(0.5, torch::kFloat64).requires_grad_();
  const auto f = [&](const at::Tensor& a, const at::Tensor& b) { return a + b + weight * a * b; };
  const auto scan = [&](const at::Tensor& x) { return associative_scan(f, x); };
  const auto x = torch::arange(5, torch::kFloat64);
  const auto wanted = torch::autograd::grad(
      {scan_by_loop([&](const Tensors& a, const Tensors& b) -> Tensors { return {f(a[0], b[0])}; }, {x})[0].sum()},
      {weight})[0];
  EXPECT_TRUE(at::allclose(torch::autograd::grad({scan(x).sum()}, {weight})[0], wanted));
  EXPECT_TRUE(at::allclose(torch::autograd::grad({aot_function(scan)(x).sum()}, {weight})[0], wanted));
}

TEST(AssociativeScanGradients, PassIntegerLeavesBy) {
  const auto f = [](const auto& a, const auto& b) { return std::pair(a.first + b.first, a.second * b.second); };
  const auto counts = torch::ones({6}, torch::kInt64);
  const auto scan = [&](const at::Tensor& x) {
    const auto ys = associative_scan(f, std::pair(counts, x));
    EXPECT_FALSE(ys.first.requires_grad());
    return ys.first * ys.second;
  };
  const auto x = torch::linspace(0.5, 1.5, 6, torch::kFloat64).requires_grad_();
  const auto wanted = torch::autograd::grad({(counts.cumsum(0) * x.cumprod(0)).sum()}, {x})[0];
  EXPECT_TRUE(at::allclose(torch::autograd::grad({scan(x).sum()}, {x})[0], wanted));
  EXPECT_TRUE(at::allclose(torch::autograd::grad({aot_function(scan)(x).sum()}, {x})[0], wanted));
}

TEST(AssociativeScanGradients, WorkWhereTheFunctionChangesItsIntermediates) {
  const auto affine = affine_operator();
  const auto f = [](const Tensors& a, const Tensors& b) -> Tensors {
    auto shift = b[0] * a[1];
    shift.add_(b[1]).mul_(1);
    return {a[0] * b[0], shift};
  };
  const auto scan = [&](const Tensors& xs) { return associative_scan(f, xs); };
  const Tensors xs = leaves_like(random_elements(affine, 9, 0));
  expect_same_derivatives([&](const Tensors& t) { return scan_by_loop(affine.f, t); }, scan, xs, 2);
  expect_as_eager([&] { return leaves_like(xs); }, scan, {.tolerance = 1e-12});
}

// The states of a recurrence over `x`, by a scan over time or by a loop.
at::Tensor recurrence(const at::Tensor& weight, const at::Tensor& x, bool by_loop) {
  const auto f = affine_operator().f;
  const Tensors xs{(x * weight).sigmoid(), x.sin()};
  return (by_loop ? scan_by_loop(f, xs) : associative_scan(f, xs))[1];
}

TEST(AssociativeScanGradients, ReachThroughBodiesOfOtherOperators) {
  torch::manual_seed(5);
  const Tensors xs = leaves_like({torch::randn({3, 5, 2}, torch::kFloat64), torch::randn({2}, torch::kFloat64)});
  const Function in_bodies = [](const Tensors& t) -> Tensors {
    const auto step = [&](const at::Tensor& carry, const at::Tensor& x) {
      const at::Tensor states = recurrence(t[1], x + carry, /*by_loop=*/false);
      return std::pair(states.narrow(0, 4, 1).squeeze(0), states);
    };
    const auto [last, rows] = scan(step, torch::zeros({2}, torch::kFloat64), t[0]);
    const at::Tensor chosen = cond(
        last.sum() < 1e9, [&](const at::Tensor& x) { return recurrence(t[1], x, /*by_loop=*/false); },
        [](const at::Tensor& x) { return x * 1; }, rows[1]);
    return {last, rows, chosen};
  };
  const Function by_loops = [](const Tensors& t) -> Tensors {
    Tensors rows;
    at::Tensor carry = torch::zeros({2}, torch::kFloat64);
    for (int64_t i = 0; i < 3; ++i) {
      rows.push_back(recurrence(t[1], t[0][i] + carry, /*by_loop=*/true));
      carry = rows.back()[4];
    }
    return {carry, at::stack(rows), recurrence(t[1], rows[1], /*by_loop=*/true)};
  };
  const auto compiled = aot_function(in_bodies);
  expect_same_derivatives(by_loops, in_bodies, xs, 2);
  expect_same_derivatives(
      by_loops, [&](const Tensors& t) { return compiled(t); }, xs, 2);
}

// Bytes that live between forward and backward, besides the arguments and the results, over the arguments' bytes.
double saved_share(const Function& f, const Tensors& xs) {
  const LiveBytes live;
  int64_t given = 0, returned = 0;
  for (const auto& x : xs) given += static_cast<int64_t>(x.nbytes());
  const Tensors ys = f(xs);
  for (const auto& y : ys) returned += static_cast<int64_t>(y.nbytes());
  return static_cast<double>(live.now() - returned) / static_cast<double>(given);
}

TEST(AssociativeScanGradients, SavedBytesGrowWithTheLength) {
  const auto affine = affine_operator();
  const auto scan = [&](const Tensors& xs) { return associative_scan(affine.f, xs); };
  const auto compiled = aot_function(scan);
  for (const int64_t length : {1024, 4096, 1023}) {
    const Tensors xs = leaves_like(random_elements(affine, length, 0));
    // Besides the arguments, the elements and the prefixes of every level below: 2 * (1/2 + 1/4 + ...).
    EXPECT_LT(saved_share(scan, xs), 2.0) << length;
    EXPECT_GT(saved_share(scan, xs), 1.9) << length << ": is everything counted?";
    EXPECT_LT(saved_share([&](const Tensors& t) { return compiled(t); }, xs), 2.0) << length;
  }
}

}  // namespace
}  // namespace diptych::testing
