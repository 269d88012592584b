// Inputs and captured buffers that are changed in place: by value, through views, under no_grad, by their shape. Random
// programs found many of these cases.
#include <torch/nn.h>
#include "semantics/inputs.h"

namespace diptych::testing {
namespace {

// Inputs mutated in place.
TEST(Mutation, InputMutatedInPlace) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].add_(1);
    return {t[0] * t[1]};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    t[0].mul_(t[1]);
    return {t[0].sin()};
  });
}

TEST(Mutation, InputMutatedThroughAView) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].view({-1}).select(0, 1).fill_(9);
    return {t[0] + t[1]};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    t[0][1].mul_(3);
    return {t[0] * t[1]};
  });
}

// What was there has no part in what is written, however large it was.
TEST(Mutation, InputMutatedThroughAnExpandedView) {
  const auto write = [](const Tensors& t) -> Tensors {
    t[0].mul_(1e30).log1p_().mul_(std::numeric_limits<double>::infinity());
    t[0].expand({1, 1, 2, 3}).copy_(t[1]);
    const at::Tensor mask = t[0] > t[1];
    mask.expand({1, 2, 3}).logical_not_();
    return {t[0] * 2, mask, t[0].eq(t[1])};
  };
  expect_as_eager(without_grad, write);
  expect_as_eager(non_leaves(two), write);
}

TEST(Mutation, InputMutatedUnderNoGrad) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    const auto y = t[0] + t[1];
    {
      const torch::NoGradGuard guard;
      t[0].add_(1);
    }
    return {y};
  });
}

TEST(Mutation, InputMutatedBehindAutogradsBack) {
  expect_as_eager(two, [](const Tensors& t) -> Tensors {
    t[0].detach().add_(2);
    return {t[0] + t[1]};
  });
}

TEST(Mutation, MutationIsSeenByEveryAliasOutside) {
  const auto f = aot_function([](const at::Tensor& x) {
    x.mul_(2);
    return x.sum();
  });
  for (int i = 0; i < 2; ++i) {
    const at::Tensor base = torch::ones({2, 3});
    const at::Tensor row = base[0];
    f(base);
    EXPECT_TRUE(at::equal(row, torch::full({3}, 2.0)));
    f(row);
    EXPECT_TRUE(at::equal(base[0], torch::full({3}, 4.0)));
  }
}

TEST(Mutation, InputBecomesTheValueOfAnother) {
  expect_as_eager(Inputs{[] {
                    return Tensors{values({2, 3}), leaf({2, 3})};
                  }},
                  [](const Tensors& t) -> Tensors {
                    t[0].copy_(t[1] * 2);
                    return {t[0] * 3};
                  });
}

TEST(Mutation, BatchNormBuffersAreUpdated) {
  const auto make = [] { return Tensors{leaf({4, 3, 2}), leaf({3}), leaf({3}), torch::zeros({3}), torch::ones({3})}; };
  CheckOptions close;
  close.tolerance = 1e-6;
  expect_as_eager(
      Inputs{make},
      [](const Tensors& t) -> Tensors {
        return {torch::batch_norm(t[0], t[1], t[2], t[3], t[4], /*training=*/true, 0.1, 1e-5, false)};
      },
      close);
  expect_as_eager(
      Inputs{make},
      [](const Tensors& t) -> Tensors {
        return {torch::batch_norm(t[0], t[1], t[2], t[3], t[4], /*training=*/false, 0.1, 1e-5, false)};
      },
      close);
}

TEST(Mutation, CapturedBuffersAreUpdatedToo) {
  torch::nn::BatchNorm1d ours(3);
  torch::nn::BatchNorm1d eager(3);
  const auto f = aot_function([&](const at::Tensor& x) { return ours->forward(x).pow(2).sum(); });
  for (int i = 0; i < 3; ++i) {
    const at::Tensor x = torch::randn({8, 3});
    const at::Tensor expected = eager->forward(x).pow(2).sum();
    const at::Tensor got = f(x);
    EXPECT_TRUE(at::allclose(expected, got));
    expected.backward();
    got.backward();
    EXPECT_TRUE(at::allclose(eager->running_mean, ours->running_mean));
    EXPECT_TRUE(at::allclose(eager->running_var, ours->running_var));
    EXPECT_TRUE(at::equal(eager->num_batches_tracked, ours->num_batches_tracked));
    EXPECT_TRUE(at::allclose(eager->weight.grad(), ours->weight.grad()));
  }
}

TEST(Mutation, MetadataOfAnInputIsMutated) {
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].t_();
    return {t[0] * 2};
  });
  expect_as_eager(without_grad, [](const Tensors& t) -> Tensors {
    t[0].unsqueeze_(0);
    t[0].mul_(3);
    return {t[0].sum()};
  });
  expect_as_eager(non_leaves(two), [](const Tensors& t) -> Tensors {
    t[0].transpose_(0, 1);
    return {t[0].sin() + t[1].t()};
  });
}

TEST(Mutation, MetadataOfASlicedTensorKeepsItsStrides) {
  const Inputs sliced{[] {
                        return Tensors{values({4, 6})};
                      },
                      [](const Tensors& t) { return Tensors{t[0].slice(1, 0, 6, 2)}; }};
  expect_as_eager(sliced, [](const Tensors& t) -> Tensors {
    t[0].zero_();
    t[0].unsqueeze_(1);
    return {t[0] + 1};
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

TEST(Mutation, WritesThroughConjugates) {
  const auto complex_values = [] { return Tensors{at::view_as_complex(values({3, 2}))}; };
  expect_as_eager(complex_values, [](const Tensors& t) -> Tensors {
    const at::Tensor y = t[0] * 1;
    y.conj().mul_(c10::complex<double>(0, 2));
    at::imag(y).add_(1);
    return {y};
  });
  expect_as_eager(complex_values, [](const Tensors& t) -> Tensors {
    t[0].conj().narrow(0, 1, 2).add_(1);
    return {at::real(t[0]) + at::imag(t[0])};
  });
  expect_as_eager(complex_values, [](const Tensors& t) -> Tensors {
    const at::Tensor y = at::matmul(t[0].reshape({1, 3, 1}), t[0].reshape({1, 1, 3}));
    y.conj().mul_(c10::complex<double>(0, 2));
    return {y};
  });
}

Tensors lazy_tensors() {
  const at::Tensor numbers = at::view_as_complex(values({3, 2, 2}));
  return {numbers.conj().detach(), numbers.clone().conj().t().detach(), at::_neg_view(values({3, 2})).detach()};
}

// A copy is made of what is lazy, and what is written to stays so.
TEST(Mutation, OfTensorsThatAreConjugatedOrNegatedLazily) {
  using Step = std::function<Tensors(const Tensors&)>;
  const std::vector<Step> steps{
      [](const Tensors& t) -> Tensors {
        return {t[0].resolve_conj(), t[1].resolve_conj(), t[2].resolve_neg()};
      },
      [](const Tensors& t) -> Tensors {
        return {t[0].conj().resolve_conj(), at::_neg_view(t[2]).resolve_neg()};
      },
      [](const Tensors& t) -> Tensors {
        for (const at::Tensor& one : t) one.add_(one);
        return {t[0].resolve_conj(), t[1].t().resolve_conj(), t[2].resolve_neg()};
      },
      [](const Tensors& t) -> Tensors {
        t[0].conj_physical_();
        t[1].mul(2).conj_physical_();
        return {(t[0] * 2).conj_physical_(), t[1].resolve_conj()};
      },
      [](const Tensors& t) -> Tensors { return {at::view_as_real(t[1].mH().resolve_conj()) * 2}; },
      [](const Tensors& t) -> Tensors {
        return cond(
            torch::ones({}, at::kBool),
            [&](const Tensors&) -> Tensors { return {at::view_as_real(t[1].mH().resolve_conj()) * 2}; },
            [&](const Tensors&) -> Tensors { return {at::view_as_real(t[1].mH().resolve_conj()) * 3}; }, Tensors{});
      },
      [](const Tensors& t) -> Tensors {
        const auto step = [&](const Tensors& c, const Tensors&) {
          return std::pair(Tensors{c[0] + 1}, Tensors{t[0].isfinite(), at::view_as_real(t[0].resolve_conj())});
        };
        const auto [carries, rows] = scan(step, Tensors{torch::zeros({})}, Tensors{}, {.length = 2});
        return {carries[0], rows[0], rows[1]};
      }};
  for (const Step& step : steps) expect_as_eager(lazy_tensors, step);
}

TEST(Mutation, OfLazyTensorsOfDynamicSizes) {
  const auto f = [](const at::Tensor& x) {
    at::imag(x).add_(1);
    return x.resolve_conj();
  };
  const auto compiled = aot_function(f, {.dynamic = true});
  for (const int64_t size : {2, 3, 5, 7}) {
    const at::Tensor x = at::view_as_complex(values({size, 2})).conj(), y = x.clone().conj_physical().conj();
    const at::Tensor expected = f(x), got = compiled(y);
    EXPECT_FALSE(got.is_conj() || got.is_alias_of(y));
    EXPECT_TRUE(at::allclose(got, expected) && at::allclose(x, y)) << size;
  }
}

}  // namespace
}  // namespace diptych::testing
