// Dims that run together become one, and kernels compute what they did.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "backends/native/kernel_case.h"
#include "diptych/native/kernel/print.h"
#include "diptych/native/lower/merge_dims.h"
#include "testing/same_tensors.h"

namespace diptych {
namespace {

using namespace detail;

std::string merged(const std::string& text) {
  Kernel kernel = parse_kernel(text);
  SizeTable sizes;
  std::vector<SizeExpr> symbols;
  for (int32_t i = 0; i < symbol_count(kernel); ++i) symbols.push_back(SizeExpr::symbol(fmt::format("s{}", i), 7));
  sizes.set_symbols(symbols);
  merge_dims(kernel, sizes);
  return print(kernel);
}

TEST(MergeDims, NeighboursInAllMapsBecomeOne) {
  EXPECT_EQ(merged("kernel f(d0=4, d1=8, d2=2) { x0 : f32 y0 : f32 %0 : f32 = load x0[16*d0 + 2*d1 + d2]\n"
                   "store y0[16*d0 + 2*d1 + d2] = %0 }"),
            print(parse_kernel("kernel f(d0=64) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0]\nstore y0[d0] = %0 }")));
}

TEST(MergeDims, ABroadcastOrATransposedOperandKeepsThemApart) {
  const std::string bias =
      "kernel f(d0=4, d1=8) { x0 : f32 y0 : f32 %0 : f32 = load x0[d1]\nstore y0[8*d0 + d1] = %0 }";
  EXPECT_EQ(merged(bias), print(parse_kernel(bias)));
  const std::string turned =
      "kernel f(d0=4, d1=8) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0 + 4*d1]\nstore y0[8*d0 + d1] = %0 }";
  EXPECT_EQ(merged(turned), print(parse_kernel(turned)));
}

TEST(MergeDims, ReductionsEndBothOrNeither) {
  const std::string row =
      "kernel f(d0=4, d1=8) { x0 : f32 y0 : f32 %0 : f32 = load x0[8*d0 + d1]\n"
      "%1 : f32 = reduce sum %0 over d1\nstore y0[d0] = %1 }";
  EXPECT_EQ(merged(row), print(parse_kernel(row)));
  EXPECT_EQ(merged("kernel f(d0=4, d1=8) { x0 : f32 y0 : f32 %0 : f32 = load x0[8*d0 + d1]\n"
                   "%1 : f32 = reduce sum %0 over d0, d1\nstore y0[0] = %1 }"),
            print(parse_kernel("kernel f(d0=32) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0]\n"
                               "%1 : f32 = reduce sum %0 over d0\nstore y0[0] = %1 }")));
}

TEST(MergeDims, PositionsAreCountedAsBefore) {
  // In memory d1 is outside of d0, but positions count d1 faster.
  const std::string turned =
      "kernel f(d0=4, d1=8) { x0 : f32 y0 : i64 %0 : f32 = load x0[d0 + 4*d1]\n"
      "%1 : i64 = reduce argmax %0 over d0, d1\nstore y0[0] = %1 }";
  EXPECT_EQ(merged(turned), print(parse_kernel(turned)));
}

TEST(MergeDims, DimsOfOnePositionAndUnusedOnesGo) {
  EXPECT_EQ(merged("kernel f(d0=1, d1=8, d2=5) { x0 : f32 y0 : f32 %0 : f32 = load x0[8*d0 + d1]\n"
                   "store y0[8*d0 + d1] = %0 }"),
            print(parse_kernel("kernel f(d0=8) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0]\nstore y0[d0] = %0 }")));
  const std::string single =
      "kernel f(d0=1) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0]\n%1 : f32 = reduce sum %0 over d0\nstore y0[0] = %1 }";
  EXPECT_EQ(merged(single), print(parse_kernel(single)));
}

TEST(MergeDims, DynamicDimsBecomeOneWhereExpressionsSay) {
  EXPECT_EQ(merged("kernel f(d0=4, d1=s0) { x0 : f32 y0 : f32 %0 : f32 = load x0[s0*d0 + d1]\n"
                   "store y0[s0*d0 + d1] = %0 }"),
            print(parse_kernel("kernel f(d0=4*s0) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0]\nstore y0[d0] = %0 }")));
  // The product of two symbols is a third one.
  EXPECT_EQ(merged("kernel f(d0=s0, d1=s1) { x0 : f32 y0 : f32 %0 : f32 = load x0[s1*d0 + d1]\n"
                   "store y0[s1*d0 + d1] = %0 }"),
            print(parse_kernel("kernel f(d0=s2) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0]\nstore y0[d0] = %0 }")));
  const std::string other =
      "kernel f(d0=s0, d1=s1) { x0 : f32 y0 : f32 %0 : f32 = load x0[s0*d0 + d1]\nstore y0[s0*d0 + d1] = %0 }";
  EXPECT_EQ(merged(other), print(parse_kernel(other)));
}

// Loads of one memory by random dense, strided and broadcast maps.
TEST(MergeDims, RandomKernelsComputeWhatTheyDid) {
  std::mt19937 random(7);
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<uint32_t>(count)); };
  size_t dims_before = 0, dims_after = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<int> extents = {1 + below(4), 1 + below(4), 1 + below(4)};
    const auto map = [&](bool is_dense) {
      std::string text = "0";
      int stride = 1;
      for (int dim = 2; dim >= 0; --dim) {
        if (is_dense || below(4) != 0) text += fmt::format(" + {}*d{}", stride, dim);
        stride *= extents[dim] + (is_dense ? 0 : below(4) / 3);
      }
      return text;
    };
    std::string text = fmt::format("kernel f(d0={}, d1={}, d2={}) {{ x0 : f32 y0 : f32 y1 : i64\n", extents[0],
                                   extents[1], extents[2]);
    const std::vector<std::string> overs = {"d0, d1, d2", "d1, d2", "d0, d1", "d0, d2", "d2"};
    const std::string over = overs[below(5)];
    text += fmt::format("%0 : f32 = load x0[{}]\n%1 : f32 = load x0[{}]\n%2 : f32 = add %0, %1\n", map(false),
                        map(below(2) == 0));
    text += fmt::format("%3 : f32 = reduce sum %2 over {}\n%4 : i64 = reduce argmax %2 over d0, d1, d2\n", over);
    text += fmt::format("%5 : f32 = add %2, %3\nstore y0[{}] = %5\nstore y1[0] = %4 }}", map(true));
    Kernel kernel = parse_kernel(text);
    dims_before += kernel.extents.size();
    const at::Tensor x = at::rand({200}), y0 = at::zeros({64}), y1 = at::zeros({1}, at::kLong);
    const at::Tensor z0 = at::zeros({64}), z1 = at::zeros({1}, at::kLong);
    const std::vector<KernelMemory> read = {KernelMemory::of(x)};
    evaluate(kernel, read, {KernelMemory::of(y0), KernelMemory::of(y1)}, {});
    SizeTable sizes;
    merge_dims(kernel, sizes);
    dims_after += kernel.extents.size();
    evaluate(kernel, read, {KernelMemory::of(z0), KernelMemory::of(z1)}, {});
    ASSERT_TRUE(testing::same_tensors({z0, z1}, {y0, y1}, testing::within(1e-6))) << text << print(kernel);
  }
  EXPECT_LT(dims_after, dims_before - 100);
}

}  // namespace
}  // namespace diptych
