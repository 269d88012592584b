// What eager refuses, and what eager does and no graph can hold.
#include "testing/values.h"

namespace diptych::testing {
namespace {

// What eager refuses, and what no graph can hold.
TEST(Refusals, LeafThatRequiresGradMutatedIsEagersError) {
  const auto f = aot_function([](const at::Tensor& x) { return x.add_(1); });
  expect_error<std::exception>([&] { f(leaf({2})); },
                               "a leaf Variable that requires grad is being used in an in-place operation");
  const auto g = aot_function([](const at::Tensor& x) { return x.view({-1}).add_(1); });
  expect_error<std::exception>([&] { g(leaf({2})); },
                               "a view of a leaf Variable that requires grad is being used in an in-place operation");
}

TEST(Refusals, StorageChangesAreRefusedByName) {
  const auto set = aot_function([](const at::Tensor& x) { return x.set_(torch::zeros({3})); });
  expect_error<UserError>([&] { set(torch::ones({2})); }, "aten::set_");
  const auto resize = aot_function([](const at::Tensor& x) { return x.resize_({5}); });
  expect_error<UserError>([&] { resize(torch::ones({2})); }, "aten::resize_");
}

TEST(Refusals, ValuesAreRefusedByNameAndScopeWhereNoPathIsAllowed) {
  const auto item = aot_function(
      [](const at::Tensor& x) {
        const auto guard = scope("head");
        return x.sum().item<float>() > 0 ? x : -x;
      },
      {.path_limit = 0});
  expect_error<UserError>([&] { item(torch::ones({2})); }, "'head'");
  const auto shape = aot_function([](const at::Tensor& x) { return x.nonzero(); }, {.path_limit = 0});
  expect_error<UserError>([&] { shape(torch::ones({2})); }, "aten::nonzero");
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
      "is changed in place, but several of its elements share one memory location (it is expanded, or its strides "
      "overlap);");
  refuses(
      [](const at::Tensor& x) {
        const at::NoGradGuard guard;
        x.t_();
        return x + 0;
      },
      leaf({2, 3}), "a leaf that requires grad and its");
  refuses(
      [](const at::Tensor& x) {
        const at::Tensor alias = x.detach();
        alias.copy_(x * 2);
        return alias;
      },
      leaf({2, 3}), "has its own history; return a clone");
  refuses(
      [](const at::Tensor& x) {
        const at::Tensor alias = x.detach();
        alias.copy_(x);
        return alias.view({6});
      },
      leaf({2, 3}), "has its own history; return a clone");
}

}  // namespace
}  // namespace diptych::testing
