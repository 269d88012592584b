// Inputs that share storage, or are one tensor; one of them may be changed in place.
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// The same tensor twice; argument and captured.
TEST(SharedStorage, OneTensorPassedTwice) {
  const Inputs twice{one, [](const Tensors& t) { return Tensors{t[0], t[0]}; }};
  expect_as_eager(twice, [](const Tensors& t) -> Tensors { return {t[0] * t[1].exp()}; });
}

TEST(SharedStorage, InputsThatShareStorageOneMutated) {
  const Inputs shared{[] {
                        return Tensors{values({4, 3})};
                      },
                      [](const Tensors& t) {
                        return Tensors{t[0].narrow(0, 0, 3), t[0].narrow(0, 1, 3), t[0]};
                      }};
  expect_as_eager(shared, [](const Tensors& t) -> Tensors {
    t[0].add_(1);
    return {t[0] * t[1], t[2].sum()};
  });
  expect_as_eager(shared, [](const Tensors& t) -> Tensors {
    t[2].mul_(2);
    t[1].sub_(3);
    return {t[0] + 0};
  });
}

TEST(SharedStorage, InputsThatShareStorageNoneMutated) {
  const Inputs shared{[] {
                        return Tensors{leaf({4, 3})};
                      },
                      [](const Tensors& t) {
                        return Tensors{t[0].narrow(0, 0, 3), t[0].narrow(0, 1, 3)};
                      }};
  expect_as_eager(shared, [](const Tensors& t) -> Tensors { return {t[0] * t[1]}; });
}

TEST(SharedStorage, TheOverlapPatternIsAGuard) {
  const auto f = aot_function([](const at::Tensor& a, const at::Tensor& b) {
    a.add_(1);
    return b * 1;
  });
  at::Tensor base = torch::zeros({4});
  EXPECT_TRUE(at::equal(f(torch::zeros({4}), torch::zeros({4})), torch::zeros({4})));
  EXPECT_TRUE(at::equal(f(base, base.view({4})), torch::ones({4})));
  EXPECT_EQ(f.stats().misses, 2U);
  EXPECT_NE(f.stats().last_miss.find("share"), std::string::npos) << f.stats().last_miss;
}

TEST(SharedStorage, CapturedTensorThatSharesStorageWithAnArgument) {
  for (int i = 0; i < 2; ++i) {
    at::Tensor base = torch::zeros({4});
    const auto f = aot_function([row = base.narrow(0, 0, 2)](const at::Tensor& x) {
      x.add_(1);
      return row * 2;
    });
    for (int call = 1; call <= 2; ++call) EXPECT_TRUE(at::equal(f(base), torch::full({2}, 2.0 * call)));
    EXPECT_TRUE(at::equal(base, torch::full({4}, 2.0)));
  }
}

TEST(SharedStorage, DataOfACapturedTensorIsJoinedWithItOrRefused) {
  const at::Tensor weight = torch::ones({3}).set_requires_grad(true);
  const auto f = aot_function([weight](const at::Tensor& x) {
    weight.data().mul_(2);
    return x * weight + weight.data();
  });
  for (int call = 1; call <= 3; ++call) {
    const double now = 1 << call;
    EXPECT_TRUE(at::equal(f(torch::full({3}, 5.0)), torch::full({3}, 6 * now)));
    EXPECT_TRUE(at::equal(weight.detach(), torch::full({3}, now)));
  }
  EXPECT_EQ(f.stats().misses, 1U);
  const auto alone = aot_function([weight](const at::Tensor& x) { return x * weight.data(); });
  EXPECT_THROW(alone(torch::ones({3})), UserError);
}

TEST(SharedStorage, OutputsOfMergedInputsAliasThem) {
  const Inputs shared{[] {
                        return Tensors{values({4, 3})};
                      },
                      [](const Tensors& t) {
                        return Tensors{t[0].narrow(0, 0, 3), t[0].narrow(0, 1, 3)};
                      }};
  expect_as_eager(shared, [](const Tensors& t) -> Tensors {
    t[0].add_(1);
    return {t[1].view({-1}), t[0].t(), t[1], t[0] + t[1]};
  });
}

// Gradients of one element come in by several paths, and are added up in another order than eager's.
CheckOptions rounding() {
  CheckOptions options;
  options.tolerance = 1e-6;
  return options;
}

// Two overlapping rows of one tensor with a history, and that tensor.
Inputs rows_that_require_grad() {
  return {[] {
            return Tensors{leaf({4, 3}), leaf({3, 3})};
          },
          [](const Tensors& t) {
            const at::Tensor base = t[0] * 2;
            return Tensors{base.narrow(0, 0, 3), base.narrow(0, 1, 3), base, t[1]};
          }};
}

TEST(SharedStorage, MergedViewsOfOneTensorThatRequireGrad) {
  Inputs without_base = rows_that_require_grad();
  without_base.derive = [derive = without_base.derive](const Tensors& leaves) {
    Tensors t = derive(leaves);
    return Tensors{t[0], t[1], t[3]};
  };
  expect_as_eager(
      without_base,
      [](const Tensors& t) -> Tensors {
        const at::Tensor before = t[1].exp();
        t[0].mul_(t[2]);
        return {t[0] * t[1], before, t[1].t()};
      },
      rounding());
  expect_as_eager(
      without_base,
      [](const Tensors& t) -> Tensors {
        t[0].narrow(1, 0, 2).add_(1);
        t[1].copy_(t[2]);
        return {t[0].sin(), t[1]};
      },
      rounding());
}

TEST(SharedStorage, MergedWithTheTensorThatTheOthersAreViewsOf) {
  expect_as_eager(
      rows_that_require_grad(),
      [](const Tensors& t) -> Tensors {
        t[2].sigmoid_();
        return {t[0] + t[1]};
      },
      rounding());
  expect_as_eager(
      rows_that_require_grad(),
      [](const Tensors& t) -> Tensors {
        const at::Tensor square = t[2] * t[2].detach();
        {
          const at::NoGradGuard guard;
          t[0].mul_(2);
        }
        return {t[1].cos(), square + 0};
      },
      rounding());
}

TEST(SharedStorage, ViewGetsTheHistoryThatItsBaseIsGiven) {
  const Inputs inputs{[] {
                        return Tensors{leaf({4, 3}), values({4, 3})};
                      },
                      [](const Tensors& t) {
                        return Tensors{t[0], t[1], t[1].narrow(0, 1, 2)};
                      }};
  expect_as_eager(
      inputs,
      [](const Tensors& t) -> Tensors {
        t[1].copy_(t[0].exp());
        return {t[2] * 3};
      },
      rounding());
}

TEST(SharedStorage, MergedWithADetachedAlias) {
  const Inputs inputs{[] {
                        return Tensors{leaf({4, 3})};
                      },
                      [](const Tensors& t) {
                        const at::Tensor x = t[0] + 0;
                        return Tensors{x, x.detach()};
                      }};
  expect_as_eager(
      inputs,
      [](const Tensors& t) -> Tensors {
        t[1].mul_(2);
        return {t[0] * 3, t[1]};
      },
      rounding());
  // What the backward needs has changed under it; both throw.
  expect_as_eager(
      inputs,
      [](const Tensors& t) -> Tensors {
        const at::Tensor y = t[0] * t[0];
        t[1].mul_(2);
        return {y};
      },
      rounding());
}

TEST(SharedStorage, TheBaseOfMergedViewsIsAGuard) {
  const auto f = aot_function([](const at::Tensor& a, const at::Tensor& b) {
    a.mul_(2);
    return a + b;
  });
  const at::Tensor x = leaf({4});
  for (int call = 0; call < 2; ++call) {
    const at::Tensor base = x * 1;
    f(base.narrow(0, 0, 3), base.narrow(0, 1, 3)).sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), torch::tensor({2.0F, 4.0F, 4.0F, 1.0F})));
    x.mutable_grad().zero_();
  }
  EXPECT_EQ(f.stats().misses, 1U);
  const at::Tensor base = x * 1;
  f(base.narrow(0, 0, 3), base.detach().narrow(0, 1, 3)).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), torch::tensor({2.0F, 2.0F, 2.0F, 0.0F})));
  EXPECT_EQ(f.stats().misses, 2U);
}

TEST(SharedStorage, WhatMergingCannotKeepIsRefusedByName) {
  const auto body = [](const at::Tensor& a, const at::Tensor& b) {
    a.mul_(2);
    return a + b;
  };
  const at::Tensor base = leaf({4}) * 1;
  const at::Tensor a = base.narrow(0, 0, 3);
  const at::Tensor b = base.narrow(0, 1, 3);
  expect_error<UserError>([&] { capture(body, a, b); }, "shares memory with");
  const auto f = aot_function(body);
  b.register_hook([](const at::Tensor& gradient) { return gradient * 10; });
  expect_error<UserError>([&] { f(a, b); }, "has hooks");
  const at::Tensor strided = torch::zeros({4, 4}).narrow(1, 0, 2).detach();
  expect_error<UserError>([&] { f(strided.view_as(strided), strided.view_as(strided)); }, "gaps or overlaps");
}

}  // namespace
}  // namespace diptych::testing
