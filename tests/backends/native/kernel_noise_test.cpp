// How far rounding carries a kernel is about what its terms say, and no more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/native/kernel_noise.h"
#include "backends/native/parse_kernel.h"

namespace diptych::testing {
namespace {

constexpr auto kSum =
    "kernel sum(d0={}) {{\n x0 : {}\n y0 : {}\n %0 : {} = load x0[d0]\n %1 : {} = reduce sum %0 over d0\n"
    " store y0[0] = %1\n}}";

Rounding rounding_of_sum(const at::Tensor& x, const std::string& name) {
  return {detail::parse_kernel(fmt::format(kSum, x.numel(), name, name, name, name)), {x}, {1}};
}

TEST(KernelNoise, ASumIsAsUncertainAsItsTerms) {
  for (const auto& [name, dtype] : {std::pair{"f32", at::kFloat}, {"f64", at::kDouble}}) {
    const auto x = at::cat({at::ones({500}), at::full({500}, -1)}).to(dtype);  // cancels to 0
    const Rounding rounding = rounding_of_sum(x, name);
    EXPECT_EQ(rounding.exact[0].item<double>(), 0);
    const double units = rounding.moved[0].item<double>() / unit_of(dtype);
    EXPECT_GT(units, 0.1 * std::sqrt(1000) * 1000);
    EXPECT_LE(units, 4 * std::sqrt(1000) * 1000);
  }
}

TEST(KernelNoise, WhatIsExactDoesNotMove) {
  const auto kernel = detail::parse_kernel(
      "kernel exact(d0=40) {\n x0 : f32\n y0 : f32\n %0 : f32 = load x0[d0]\n %1 : f32 = floor %0\n"
      " %2 : f32 = abs %1\n %3 : f32 = max %2, %0\n store y0[d0] = %3\n}");
  EXPECT_EQ(Rounding(kernel, {at::arange(40).to(at::kFloat) - 20}, {40}).moved[0].max().item<double>(), 0);
}

TEST(KernelNoise, AChainMovesByItsRoundings) {
  const auto kernel = detail::parse_kernel(
      "kernel chain(d0=200) {\n x0 : f32\n y0 : f32\n %0 : f32 = load x0[d0]\n %1 : f32 = exp %0\n"
      " %2 : f32 = mul %1, %0\n %3 : f32 = sqrt %2\n store y0[d0] = %3\n}");
  const Rounding rounding(kernel, {at::rand({200}) + 0.5}, {200});
  const at::Tensor units = rounding.moved[0] / rounding.exact[0].abs() / unit_of(at::kFloat);
  EXPECT_GT(units.mean().item<double>(), 1);
  EXPECT_LT(units.max().item<double>(), 12);
}

}  // namespace
}  // namespace diptych::testing
