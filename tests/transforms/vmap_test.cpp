// dp::vmap beside a loop over the elements, over operators, higher-order operators and compiled functions.
#include "diptych/transforms/vmap.h"
#include "diptych/compile/gradients.h"
#include "diptych/hops/cond/cond.h"
#include "diptych/hops/scan/scan.h"
#include "diptych/hops/while_loop/while_loop.h"
#include "testing/values.h"

namespace diptych::testing {
namespace {

void expect_close_in_float(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_TRUE(got.defined());
  EXPECT_TRUE(same_tensor(got, wanted, {.rtol = 1e-5, .atol = 1e-6}));
}

at::Tensor loss(const at::Tensor& w, const at::Tensor& x) { return (x.matmul(w)).tanh().pow(2).sum(); }

at::Tensor summed(const at::Tensor& x) {
  return scan([](const at::Tensor& c, const at::Tensor& y) { return std::pair((c * y).tanh(), c + y); },
              at::Tensor(x[0]), x)
      .second.sum();
}

at::Tensor each(const std::function<at::Tensor(const at::Tensor&)>& f, const at::Tensor& batch) {
  Tensors rows;
  for (const at::Tensor& row : batch.unbind()) rows.push_back(f(row));
  return torch::stack(rows);
}

TEST(Vmap, StacksWhatTheElementsGive) {
  const at::Tensor x = values({5, 3}), w = values({3, 2}, 1);
  expect_close_in_float(vmap([&](const at::Tensor& row) { return loss(w, row); })(x),
                        each([&](const at::Tensor& row) { return loss(w, row); }, x));
}

TEST(Vmap, DimensionsAreChosenPerArgumentAndResult) {
  const at::Tensor x = values({3, 5}), w = values({3, 2}, 1);
  const auto f = [](const at::Tensor& w, const at::Tensor& row) { return std::pair(row.matmul(w), row * 2); };
  const auto [product, twice] = vmap(f, {.in_dims = {std::nullopt, -1}, .out_dims = {1, 0}})(w, x);
  expect_close_in_float(product, x.t().matmul(w).t());
  expect_close_in_float(twice, x.t() * 2);
  const auto same = vmap([](const at::Tensor&) { return torch::ones({2}); }, {.out_dims = {1}})(x);
  expect_close_in_float(same, torch::ones({2, 3}));
}

TEST(Vmap, TreesOfTensorsAreMappedLeafByLeaf) {
  using Parts = std::map<std::string, at::Tensor>;
  const Parts parts{{"a", values({4, 3})}, {"b", values({4, 2}, 1)}};
  const auto f = [](const Parts& p) { return Parts{{"sum", p.at("a").sum() + p.at("b").sum()}, {"a", p.at("a") * 2}}; };
  const Parts found = vmap(f)(parts);
  expect_close_in_float(found.at("sum"), parts.at("a").sum(1) + parts.at("b").sum(1));
  expect_close_in_float(found.at("a"), parts.at("a") * 2);
}

TEST(Vmap, GradientsPerSampleInOneGraph) {
  const at::Tensor x = values({5, 3}), w = values({3, 2}, 1);
  const auto per_sample = aot_function(vmap(grad(loss), {.in_dims = {std::nullopt, 0}}));
  const at::Tensor wanted = each([&](const at::Tensor& row) { return grad(loss)(w, row); }, x);
  for (int call = 0; call < 2; ++call) expect_close_in_float(per_sample(w, x), wanted);
  EXPECT_EQ(per_sample.stats().originals, 0U);
  EXPECT_EQ(per_sample.stats().hits, 1U);
}

TEST(Vmap, CompiledFunctionsHaveOneCaptureForAllCalls) {
  const auto compiled = aot_function(loss);
  const at::Tensor x = values({5, 3}), w = values({3, 2}, 1);
  const auto batched = vmap(compiled, {.in_dims = {std::nullopt, 0}});
  for (int call = 0; call < 3; ++call) {
    expect_close_in_float(batched(w, x), each([&](const at::Tensor& row) { return loss(w, row); }, x));
  }
  EXPECT_EQ(compiled.stats().originals, 0U);
  EXPECT_EQ(compiled.stats().misses, 1U);
  const at::Tensor leaf_w = w.clone().requires_grad_();
  batched(leaf_w, x).sum().backward();
  const at::Tensor same = w.clone().requires_grad_();
  loss(same, x).backward();
  expect_close_in_float(leaf_w.grad(), same.grad());
}

TEST(Vmap, ACompiledFunctionChangesItsArgumentAndReturnsAView) {
  const auto f = [](const at::Tensor& row) {
    at::Tensor(row).mul_(2);
    return std::pair(row[0], row.sin());
  };
  const auto compiled = aot_function(f);
  for (int call = 0; call < 2; ++call) {
    const at::Tensor x = values({4, 3}), same = x.clone();
    const auto [view, sine] = vmap(compiled)(x);
    const auto [wanted_view, wanted_sine] = vmap(f)(same);
    expect_close_in_float(x, same);
    expect_close_in_float(sine, wanted_sine);
    x.zero_();
    expect_close_in_float(view, torch::zeros({4}));
  }
  EXPECT_EQ(compiled.stats().originals, 0U);
  EXPECT_EQ(compiled.stats().hits, 1U);
}

TEST(Vmap, LoopsAndBranchesHaveRules) {
  const at::Tensor x = values({4, 3, 2});
  const size_t before = eager_calls().size();
  expect_close_in_float(vmap(summed)(x), each(summed, x));
  const auto branched = [](const at::Tensor& y) {
    return cond(
        y.sum() > 0, [](const at::Tensor& z) { return z.sum().sqrt(); }, [](const at::Tensor& z) { return -z.sum(); },
        y);
  };
  expect_close_in_float(vmap(branched)(x), each(branched, x));
  const auto looped = [](const at::Tensor& y) {
    return while_loop([](const at::Tensor& c) { return c.sum() < 9; }, [](const at::Tensor& c) { return c * 1.5 + 1; },
                      y)
        .sum();
  };
  expect_close_in_float(vmap(looped)(x), each(looped, x));
  expect_close_in_float(vmap(vmap(summed))(x.unsqueeze(0)), each(summed, x).unsqueeze(0));
  EXPECT_EQ(eager_calls().size(), before);
}

TEST(Vmap, RandomNumbersAreRefusedSameOrDifferent) {
  const at::Tensor x = values({4, 3});
  const auto f = [](const at::Tensor& row) { return row + torch::rand_like(row); };
  const at::Tensor same = vmap(f, {.randomness = Randomness::kSame})(x) - x;
  expect_close_in_float(same[0], same[1]);
  const at::Tensor different = vmap(f, {.randomness = Randomness::kDifferent})(x) - x;
  EXPECT_FALSE(torch::allclose(different[0], different[1]));
  EXPECT_THROW((void)vmap(f)(x), c10::Error);
  EXPECT_FALSE(detail::levels_are_active());
}

TEST(Vmap, RefusesWhatDoesNotFit) {
  const at::Tensor x = values({4, 3});
  const auto sum = [](const at::Tensor& a, const at::Tensor& b) { return a + b; };
  expect_error([&] { (void)vmap(sum, {.in_dims = {0}})(x, x); }, "[vmap] got 1 in_dims for 2 arguments");
  expect_error([&] { (void)vmap(sum)(x, values({5, 3})); }, "[vmap] 'arg1' has 5 elements, 'arg0' has 4");
  expect_error([&] { (void)vmap(sum, {.in_dims = {2, 0}})(x, x); }, "in_dim 2 is not a dimension of 'arg0'");
  expect_error(
      [&] {
        (void)vmap(sum, {.in_dims = {std::nullopt, std::nullopt}})(x, x);
      },
      "got no argument with a batch");
  expect_error([&] { (void)vmap(sum, {.out_dims = {7}})(x, x); }, "out_dim 7 is not a dimension of");
  expect_error([&] { (void)vmap(sum, {.out_dims = {0, 1}})(x, x); }, "got 2 out_dims for 1 tensors in the result");
  EXPECT_FALSE(detail::levels_are_active());
}

}  // namespace
}  // namespace diptych::testing
