// Where mutation meets views, layouts and what a backward has saved. Random programs found most of these cases.
#include "testing/values.h"

namespace diptych::testing {
namespace {

Inputs cloned(bool requires_grad = true) {
  return {[=] {
            return Tensors{values({3, 3}).set_requires_grad(requires_grad)};
          },
          [](const Tensors& t) { return Tensors{t[0].clone()}; }};
}

TEST(InputAliases, AliasFromBeforeAChangeOfShape) {
  expect_as_eager(cloned(false), [](const Tensors& t) -> Tensors {
    const at::Tensor before = t[0].detach();
    const at::Tensor row = t[0].select(0, 1);
    t[0].t_();
    before.select(1, 1).fill_(1.5);
    return {before, row};
  });
}

TEST(OutputAliases, ViewOfAnIntermediateThatChangesItsShape) {
  // The base is square: a view taken again from the changed base would fit, and be the wrong one.
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor base = t[0].exp();
    const at::Tensor row = base.select(0, 1);
    base.t_();
    return {row, base};
  });
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor base = t[0] * 2;
    const at::Tensor row = base.select(0, 1);
    base.t_();
    row.mul_(3);
    return {base.sin()};
  });
}

TEST(OutputAliases, ViewThatChangesItsOwnShape) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor rows = t[0].narrow(0, 1, 2);
    rows.t_();
    rows.select(1, 0).mul_(0.25);
    return {rows};
  });
}

TEST(OutputAliases, ViewOfAFreshLeaf) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor fresh = torch::full({2, 3}, 0.5).requires_grad_();
    return {fresh.narrow(1, 0, 2), fresh, t[0] + 1};
  });
}

TEST(Mutation, FunctionThatChangesItsInputAlone) {
  const auto changes = [](const Tensors& t) -> Tensors {
    t[0].mul_(2);
    return {};
  };
  CheckOptions options;
  options.backward = false;
  expect_as_eager([] { return Tensors{torch::ones({3})}; }, changes, options);
}

// Where a stand-in is taken for a subclass, matrix_rank gives a tensor of its own.
TEST(Mutation, CompositeThatWritesIntoItsOut) {
  CheckOptions options;
  options.backward = false;
  const auto inputs = [] { return Tensors{torch::eye(3), torch::zeros({}, torch::kLong)}; };
  const auto rank = [](const Tensors& t) -> Tensors {
    at::Tensor out = t[1];
    return {at::linalg_matrix_rank_out(out, t[0], 1e-3) + 1};
  };
  expect_as_eager(inputs, rank, options);
}

TEST(Mutation, ViewsThatShareAStorageInInferenceMode) {
  const c10::InferenceMode inference;
  const auto f = [](const at::Tensor& a, const at::Tensor& b) { return a.mul_(2) + b; };
  const auto base = torch::ones({6}), same = torch::ones({6});
  const auto got = aot_function(f)(base.slice(0, 0, 3), base.slice(0, 1, 4));
  EXPECT_TRUE(at::equal(got, f(same.slice(0, 0, 3), same.slice(0, 1, 4))));
  EXPECT_TRUE(at::equal(base, same));
}

TEST(Mutation, ResultKeepsTheLayoutOfWhatItWasWrittenTo) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor x = t[0].t() + 3;
    x.masked_fill_(x.gt(3), 0.5);
    return {x, x.t().view({9})};
  });
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    const at::Tensor base = t[0] * 2;
    const at::Tensor x = base.t();
    x.masked_fill_(x.gt(0), 0.5);
    return {x.exp(), base.view({9})};
  });
}

TEST(Mutation, InputWithGapsKeepsThem) {
  const Inputs strided{[] {
                         return Tensors{values({4, 6})};
                       },
                       [](const Tensors& t) { return Tensors{t[0].slice(1, 0, 6, 2)}; }};
  expect_as_eager(strided, [](const Tensors& t) -> Tensors {
    t[0].zero_();
    const at::Tensor copy = t[0].contiguous();
    copy.add_(1);
    return {copy, t[0].flatten(), t[0].t()};
  });
}

TEST(Mutation, ResidualOfAnInputThatChangesItsShape) {
  const Inputs two{[] {
                     return Tensors{values({3, 3}), leaf({3, 3})};
                   },
                   [](const Tensors& t) {
                     return Tensors{t[0].clone(), t[1]};
                   }};
  // Saved before t_() is done to the caller's tensor: the backward must not see it transposed.
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * t[1];
    t[0].t_();
    return {y};
  });
}

TEST(Refusals, WhatCanNotBeKeptIsRefusedByName) {
  const auto refuses = [](const auto& body, const at::Tensor& x, const std::string& part) {
    const auto f = aot_function(body);
    expect_error<UserError>([&] { f(x); }, part);
  };
  refuses(
      [](const at::Tensor& x) {
        x.unfold(0, 2, 1).mul_(2);
        return x + 0;
      },
      torch::ones({4}), "changes a view whose elements overlap");
  refuses(
      [](const at::Tensor& x) {
        x.select(0, 0).mul_(2);
        return x + 0;
      },
      torch::ones({3}).expand({2, 3}),
      "is expanded, or taken by strides that overlap, so that several elements lie in one place");
  refuses(
      [](const at::Tensor& x) {
        const at::NoGradGuard guard;
        x.t_();
        return x + 0;
      },
      leaf({2, 3}), "a leaf that requires grad");
  refuses(
      [](const at::Tensor& x) {
        const at::Tensor alias = x.detach();
        alias.copy_(x * 2);
        return alias;
      },
      leaf({2, 3}), "has a history of its own; return a clone");
  refuses(
      [](const at::Tensor& x) {
        const at::Tensor alias = x.detach();
        alias.copy_(x);
        return alias.view({6});
      },
      leaf({2, 3}), "has a history of its own; return a clone");
}

TEST(GradModes, StepOfAViewTakenUnderNoGradStaysSo) {
  expect_as_eager(cloned(), [](const Tensors& t) -> Tensors {
    t[0].add_(1);
    at::Tensor windows;
    {
      const at::NoGradGuard guard;
      windows = t[0].unfold(0, 2, 1);
    }
    return {windows.unsqueeze(3)};
  });
}

TEST(SavedTensors, TangentThatCanNotBeTracedSpoilsNoOther) {
  // linear saves the second input, which is then changed; a backward of that input alone does not need it.
  const auto body = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor y = at::linear(x, w);
    w.clamp_(-1, 1);
    return y;
  };
  const auto f = aot_function(body);
  const at::Tensor x = leaf({2, 3});
  const at::Tensor w = leaf({2, 3});
  for (int call = 0; call < 2; ++call) {
    const at::Tensor changed = w * 1;
    const at::Tensor y = f(x, changed);
    w.mutable_grad() = at::Tensor();
    changed.sum().backward({}, /*retain_graph=*/true);
    EXPECT_TRUE(at::equal(w.grad(), torch::ones({2, 3})));
    expect_error<c10::Error>([&] { y.sum().backward(); }, "modified by an inplace operation");
  }
}

TEST(SavedTensors, OnlyWhatABackwardReadsIsChecked) {
  const auto f = aot_function([](const at::Tensor& x) {
    const at::Tensor sum = x + 1;
    return std::vector<at::Tensor>{sum, sum * sum};
  });
  const at::Tensor x = leaf({3});
  const auto results = f(x);
  {
    const at::NoGradGuard guard;
    results[0].mul_(2);
  }
  results[0].sum().backward({}, /*retain_graph=*/true);
  EXPECT_TRUE(at::equal(x.grad(), torch::ones({3})));
  expect_error<c10::Error>([&] { results[1].sum().backward(); }, "modified by an inplace operation");
}

}  // namespace
}  // namespace diptych::testing
