// The reference evaluator computes what ATen does, kernel by kernel.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "backends/native/kernel_case.h"
#include "backends/native/random_kernel.h"
#include "diptych/native/kernel/print.h"
#include "testing/expect_error.h"
#include "testing/same_tensors.h"

namespace diptych {
namespace {

using testing::expect_error;
using testing::run_kernel;
using testing::same_tensor;
using testing::within;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

constexpr auto kSoftmax = R"(kernel softmax(d0=s0, d1=s1) {
  x0 : f32
  y0 : f32
  %0 : f32 = load x0[s1*d0 + d1]
  %1 : f32 = reduce max %0 over d1
  %2 : f32 = sub %0, %1
  %3 : f32 = exp %2
  %4 : f32 = reduce sum %3 over d1
  %5 : f32 = div %3, %4
  store y0[s1*d0 + d1] = %5
}
)";

TEST(NativeKernel, ComputesSoftmaxAtAnySize) {
  for (const auto& [rows, columns] : {std::pair{5, 7}, {1, 1}, {0, 7}, {3, 130}}) {
    const auto x = at::randn({rows, columns}) * 10;
    const auto y = at::empty_like(x);
    run_kernel(kSoftmax, {x}, {y}, {rows, columns});
    EXPECT_TRUE(same_tensor(y, at::softmax(x, 1), within(1e-6)));
  }
}

TEST(NativeKernel, ComputesLayerNormWithItsStatistics) {
  const auto x = at::randn({6, 16}) * 3 + 100, weight = at::randn({16}), bias = at::randn({16});
  const auto y = at::empty_like(x), mean = at::empty({6}), rstd = at::empty({6});
  run_kernel(R"(kernel layer_norm(d0=s0, d1=16) {
    x0 : f32
    x1 : f32
    x2 : f32
    y0 : f32
    y1 : f32
    y2 : f32
    %0 : f32 = load x0[16*d0 + d1]
    %1 : f32 = reduce mean %0 over d1
    %2 : f32 = reduce squared_deviations %0 over d1
    %3 : f32 = constant 16
    %4 : f32 = div %2, %3
    %5 : f32 = constant 1e-05
    %6 : f32 = add %4, %5
    %7 : f32 = rsqrt %6
    %8 : f32 = sub %0, %1
    %9 : f32 = mul %8, %7
    %10 : f32 = load x1[d1]
    %11 : f32 = load x2[d1]
    %12 : f32 = fma %9, %10, %11
    store y0[16*d0 + d1] = %12
    store y1[d0] = %1
    store y2[d0] = %7
  })",
             {x, weight, bias}, {y, mean, rstd}, {6});
  const auto [expected, expected_mean, expected_rstd] = at::native_layer_norm(x, {16}, weight, bias, 1e-5);
  EXPECT_TRUE(same_tensor(y, expected, within(1e-4)));
  EXPECT_TRUE(same_tensor(mean, expected_mean.reshape({6}), within(1e-6)));
  EXPECT_TRUE(same_tensor(rstd, expected_rstd.reshape({6}), within(1e-5)));
}

TEST(NativeKernel, ReadsViewsByTheirMaps) {
  // A transposed, a flipped and a broadcast operand, and a result with every second column of its memory.
  const auto a = at::randn({4, 3}), b = at::randn({3, 4}), c = at::randn({4});
  const auto memory = at::zeros({3, 8});
  const auto y = memory.slice(1, 0, 8, 2);
  run_kernel(R"(kernel views(d0=3, d1=s0) {
    x0 : f32
    x1 : f32
    x2 : f32
    y0 : f32
    %0 : f32 = load x0[d0 + 3*d1]
    %1 : f32 = load x1[s1 - s0*d0 - d1]
    %2 : f32 = load x2[d1]
    %3 : f32 = add %0, %1
    %4 : f32 = add %3, %2
    store y0[2*s0*d0 + 2*d1] = %4
  })",
             {a, b, c}, {y}, {4, 11});
  EXPECT_TRUE(same_tensor(y.contiguous(), a.t() + b.flip({0, 1}) + c));
  EXPECT_EQ(memory.slice(1, 1, 8, 2).abs().sum().item<float>(), 0);
}

TEST(NativeKernel, PadsByAMaskedLoad) {
  for (const int64_t length : {5, 1, 0}) {
    const auto x = at::randn({length}), y = at::empty({length + 5});
    run_kernel(R"(kernel pad(d0=s0) {
      x0 : f32
      y0 : f32
      %0 : i64 = index d0 - 2
      %1 : i64 = index s1
      %2 : i64 = constant 0
      %3 : b8 = ge %0, %2
      %4 : b8 = lt %0, %1
      %5 : b8 = and %3, %4
      %6 : f32 = constant 1.5
      %7 : f32 = load x0[d0 - 2] if %5 else %6
      store y0[d0] = %7
    })",
               {x}, {y}, {length + 5, length});
    EXPECT_TRUE(same_tensor(y, at::constant_pad_nd(x, {2, 3}, 1.5)));
  }
}

TEST(NativeKernel, ConcatenatesByMaskedLoads) {
  for (const auto& [first, second] : {std::pair{3, 4}, {0, 4}, {3, 0}}) {
    const auto a = at::randn({2, first}), b = at::randn({2, second}), y = at::empty({2, first + second});
    run_kernel(R"(kernel concatenate(d0=2, d1=s0) {
      x0 : f32
      x1 : f32
      y0 : f32
      %0 : i64 = index d1
      %1 : i64 = index s1
      %2 : b8 = lt %0, %1
      %3 : b8 = not %2
      %4 : f32 = constant nan
      %5 : f32 = load x1[s2*d0 + d1 - s1] if %3 else %4
      %6 : f32 = load x0[s1*d0 + d1] if %2 else %5
      store y0[s0*d0 + d1] = %6
    })",
               {a, b}, {y}, {first + second, first, second});
    EXPECT_TRUE(same_tensor(y, at::cat({a, b}, 1)));
  }
}

constexpr auto kEmbedding = R"(kernel embedding(d0=s0, d1=s1) {
  x0 : i64
  x1 : f32
  y0 : f32
  %0 : i64 = load x0[d0]
  %1 : f32 = load x1[d1 + s1*%0]
  store y0[s1*d0 + d1] = %1
})";

TEST(NativeKernel, GathersAnEmbedding) {
  const auto indices = at::randint(0, 10, {7}), table = at::randn({10, 3}), y = at::empty({7, 3});
  run_kernel(kEmbedding, {indices, table}, {y}, {7, 3});
  EXPECT_TRUE(same_tensor(y, at::embedding(table, indices)));
}

TEST(NativeKernel, ScattersTheGradientOfAnEmbedding) {
  for (const int64_t count : {7, 200, 0}) {
    const auto indices = at::randint(0, 10, {count}), grad = at::randn({count, 3}), y = at::full({10, 3}, 7.0);
    run_kernel(R"(kernel embedding_backward(d0=s0, d1=3, d2=s1) {
      x0 : i64
      x1 : f32
      y0 : f32
      %0 : f32 = constant 0
      %1 : i64 = load x0[d0]
      %2 : f32 = load x1[3*d0 + d1]
      store y0[3*d2 + d1] = %0
      store add y0[d1 + 3*%1] = %2
    })",
               {indices, grad}, {y}, {count, 10});
    EXPECT_TRUE(same_tensor(y, at::embedding_dense_backward(grad, indices, 10, -1, false), within(1e-5)));
  }
}

TEST(NativeKernel, FindsExtremesAndTheirPlacesWithNan) {
  const auto x = at::randn({9, 6});
  x[1][4] = kNan;
  x[2][0] = kNan;
  x[2][5] = kNan;
  x[3] = 1.0;
  x[4][2] = kInfinity;
  x[5] = -kInfinity;
  const auto max = at::empty({9}), min = at::empty({9});
  const auto argmax = at::empty({9}, at::kLong), argmin = at::empty({9}, at::kLong);
  run_kernel(R"(kernel extremes(d0=9, d1=6) {
    x0 : f32
    y0 : f32
    y1 : f32
    y2 : i64
    y3 : i64
    %0 : f32 = load x0[6*d0 + d1]
    %1 : f32 = reduce max %0 over d1
    %2 : f32 = reduce min %0 over d1
    %3 : i64 = reduce argmax %0 over d1
    %4 : i64 = reduce argmin %0 over d1
    store y0[d0] = %1
    store y1[d0] = %2
    store y2[d0] = %3
    store y3[d0] = %4
  })",
             {x}, {max, min, argmax, argmin});
  EXPECT_TRUE(same_tensor(max, at::amax(x, 1), {.equal_nan = true}));
  EXPECT_TRUE(same_tensor(min, at::amin(x, 1), {.equal_nan = true}));
  EXPECT_TRUE(same_tensor(argmax, at::argmax(x, 1)));
  EXPECT_TRUE(same_tensor(argmin, at::argmin(x, 1)));
}

TEST(NativeKernel, CountsAPlaceOverSeveralDimsWithTheLastFastest) {
  const auto x = at::randn({3, 4, 5}), y = at::empty({4}, at::kLong);
  run_kernel(R"(kernel place(d0=3, d1=4, d2=5) {
    x0 : f32
    y0 : i64
    %0 : f32 = load x0[20*d0 + 5*d1 + d2]
    %1 : i64 = reduce argmax %0 over d0, d2
    store y0[d1] = %1
  })",
             {x}, {y});
  EXPECT_TRUE(same_tensor(y, at::argmax(x.transpose(0, 1).reshape({4, 15}), 1)));
}

TEST(NativeKernel, SumsColumns) {
  for (const int64_t rows : {100, 1, 0}) {
    const auto x = at::randn({rows, 5}), sum = at::empty({5}), product = at::empty({5});
    run_kernel(R"(kernel columns(d0=s0, d1=5) {
      x0 : f32
      y0 : f32
      y1 : f32
      %0 : f32 = load x0[5*d0 + d1]
      %1 : f32 = reduce sum %0 over d0
      %2 : f32 = reduce prod %0 over d0
      store y0[d1] = %1
      store y1[d1] = %2
    })",
               {x}, {sum, product}, {rows});
    EXPECT_TRUE(same_tensor(sum, x.sum(0), within(1e-5)));
    EXPECT_TRUE(same_tensor(product, x.prod(0), within(1e-5)));
  }
}

TEST(NativeKernel, AddsUpWhatDoesNotVary) {
  const auto x = at::randn({4}), y = at::empty({4});
  run_kernel(R"(kernel repeated(d0=4, d1=s0) {
    x0 : f32
    y0 : f32
    %0 : f32 = load x0[d0]
    %1 : f32 = reduce sum %0 over d1
    store y0[d0] = %1
  })",
             {x}, {y}, {3});
  EXPECT_TRUE(same_tensor(y, x.unsqueeze(1).expand({4, 3}).sum(1), within(1e-6)));
}

TEST(NativeKernel, TakesTheLogarithmOfSumsOfExponentials) {
  const auto x = at::randn({6, 8}, at::kDouble) * 500;
  x[1] = -kInfinity;
  x[2][3] = kInfinity;
  x[3][3] = kNan;
  const auto y = at::empty({6}, at::kDouble);
  run_kernel(R"(kernel logsumexp(d0=6, d1=8) {
    x0 : f64
    y0 : f64
    %0 : f64 = load x0[8*d0 + d1]
    %1 : f64 = reduce logsumexp %0 over d1
    store y0[d0] = %1
  })",
             {x}, {y});
  EXPECT_TRUE(at::allclose(y, at::logsumexp(x, {1}), 1e-12, 0, /*equal_nan=*/true)) << y << at::logsumexp(x, {1});
}

TEST(NativeKernel, RoundsHalvesWhereTheCastsAre) {
  for (const auto& [dtype, name] : {std::pair{at::kBFloat16, "bf16"}, {at::kHalf, "f16"}}) {
    const auto a = at::randn({64}).to(dtype), b = at::randn({64}).to(dtype), c = at::randn({64}).to(dtype);
    const auto y = at::empty_like(a);
    const auto text = fmt::format(R"(kernel halves(d0=64) {{
      x0 : {0}
      x1 : {0}
      x2 : {0}
      y0 : {0}
      %0 : {0} = load x0[d0]
      %1 : f32 = cast %0
      %2 : {0} = load x1[d0]
      %3 : f32 = cast %2
      %4 : f32 = mul %1, %3
      %5 : {0} = cast %4
      %6 : f32 = cast %5
      %7 : {0} = load x2[d0]
      %8 : f32 = cast %7
      %9 : f32 = add %6, %8
      %10 : {0} = cast %9
      store y0[d0] = %10
    }})",
                                  name);
    run_kernel(text, {a, b, c}, {y});
    EXPECT_TRUE(same_tensor(y, a * b + c));
  }
}

TEST(NativeKernel, WrapsIntegersAndReducesBools) {
  const auto a = at::randint(-128, 128, {40}).to(at::kChar), b = at::randint(-128, 128, {40}).to(at::kChar);
  const auto product = at::empty_like(a), sum = at::empty({}, at::kLong), any = at::empty({}, at::kBool),
             all = at::empty({}, at::kBool), count = at::empty({}, at::kLong);
  run_kernel(R"(kernel integers(d0=40) {
    x0 : i8
    x1 : i8
    y0 : i8
    y1 : i64
    y2 : b8
    y3 : b8
    y4 : i64
    %0 : i8 = load x0[d0]
    %1 : i8 = load x1[d0]
    %2 : i8 = mul %0, %1
    %3 : i64 = reduce sum %2 over d0
    %4 : b8 = lt %0, %1
    %5 : b8 = reduce any %4 over d0
    %6 : b8 = reduce all %4 over d0
    %7 : i64 = reduce sum %4 over d0
    store y0[d0] = %2
    store y1[0] = %3
    store y2[0] = %5
    store y3[0] = %6
    store y4[0] = %7
  })",
             {a, b}, {product, sum, any, all, count});
  EXPECT_TRUE(same_tensor(product, a * b));
  EXPECT_TRUE(same_tensor(sum, (a * b).sum()));
  EXPECT_TRUE(same_tensor(any, (a < b).any()));
  EXPECT_TRUE(same_tensor(all, (a < b).all()));
  EXPECT_TRUE(same_tensor(count, (a < b).sum()));
}

TEST(NativeKernel, MultipliesAndSumsComplexNumbers) {
  const auto a = at::randn({4, 5}, at::kComplexFloat), b = at::randn({4, 5}, at::kComplexFloat);
  const auto y = at::empty_like(a), sum = at::empty({4}, at::kComplexFloat), size = at::empty({4, 5});
  run_kernel(R"(kernel complex_numbers(d0=4, d1=5) {
    x0 : c64
    x1 : c64
    y0 : c64
    y1 : c64
    y2 : f32
    %0 : c64 = load x0[5*d0 + d1]
    %1 : c64 = load x1[5*d0 + d1]
    %2 : c64 = conj %1
    %3 : c64 = mul %0, %2
    %4 : c64 = constant (1, -0.5)
    %5 : c64 = add %3, %4
    %6 : c64 = reduce sum %5 over d1
    %7 : f32 = abs %5
    store y0[5*d0 + d1] = %5
    store y1[d0] = %6
    store y2[5*d0 + d1] = %7
  })",
             {a, b}, {y, sum, size});
  const auto expected = a * b.conj() + c10::complex<float>(1, -0.5f);
  EXPECT_TRUE(same_tensor(y, expected, within(1e-5)));
  EXPECT_TRUE(same_tensor(sum, expected.sum(1), within(1e-5)));
  EXPECT_TRUE(same_tensor(size, expected.abs(), within(1e-5)));
}

TEST(NativeKernel, AddsStoresInF64AndRoundsOnce) {
  // In f32, each 1 would be lost beside 2^25.
  const auto x = at::ones({64}), y = at::full({1}, 33554432.0);
  run_kernel("kernel count(d0=64) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0] store add y0[0] = %0 }", {x}, {y});
  EXPECT_EQ(y.item<float>(), 33554432.0F + 64);
}

TEST(NativeKernel, LoadsBeforeItStores) {
  const auto x = at::arange(5, at::kFloat);
  run_kernel(R"(kernel reverse(d0=5) {
    x0 : f32
    y0 : f32
    %0 : f32 = load x0[4 - d0]
    store y0[d0] = %0
  })",
             {x}, {x});
  EXPECT_TRUE(same_tensor(x, at::arange(5, at::kFloat).flip({0})));
}

TEST(NativeKernel, EvaluatesRandomKernelsOrSaysWhyNot) {
  const std::vector<int64_t> symbols(6, 1);
  int finished = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const auto kernel = testing::RandomKernel(seed).make();
    testing::Tensors inputs, outputs;
    for (const auto dtype : kernel.inputs) inputs.push_back(at::ones({4096}, dtype));
    for (const auto dtype : kernel.outputs) outputs.push_back(at::ones({4096}, dtype));
    try {
      run_kernel(detail::print(kernel), inputs, outputs, symbols);
      ++finished;
    } catch (const UserError& error) {
      EXPECT_EQ(std::string(error.what()).rfind("[kernel ", 0), 0U) << error.what();
    }
  }
  EXPECT_GT(finished, 5);
}

TEST(NativeKernel, DoesNothingWhereADimHasNoPositions) {
  const auto x = at::randn({4}), y = at::zeros({4});
  const auto text =
      "kernel f(d0=s0, d1=s1, d2=s2) { x0 : f32 y0 : f32 %0 : f32 = load x0[d0 + d1 + d2] store y0[d0 + d1 + d2] = %0 "
      "}";
  for (const auto& sizes : {std::vector{int64_t{1} << 40, int64_t{1} << 40, int64_t{0}}, {0, 1L << 40, 1L << 40}})
    run_kernel(text, {x}, {y}, sizes);
  EXPECT_TRUE(same_tensor(y, at::zeros({4})));
}

TEST(NativeKernel, NamesTheAccessThatLeavesItsMemory) {
  const auto table = at::randn({10, 3}), y = at::empty({4, 3});
  const auto indices = at::tensor({1, 2, 10, 3}, at::kLong);
  expect_error(
      [&] {
        run_kernel(kEmbedding, {indices, table}, {y}, {4, 3});
      },
      {"[kernel embedding] '%1 : f32 = load x1[d1 + s1*%0]' reads element 30 of x1, which has 30, at d0=2, d1=0",
       "check the map and the symbols, or mask the load"});
  expect_error(
      [&] {
        run_kernel(kEmbedding, {indices.slice(0, 0, 2), table}, {y}, {2, -3});
      },
      "[kernel embedding] the extent of d1 is -3");
  expect_error(
      [&] {
        run_kernel("kernel f(d0=9) { x0 : f32 y0 : f32 %0 : f32 = load x0[0] store y0[d0] = %0 }", {y},
                   {y.slice(0, 2)});
      },
      "'store y0[d0] = %0' writes element 6 of y0, which has 6, at d0=6");
}

TEST(NativeKernel, RefusesACallThatDoesNotFit) {
  const auto x = at::randn({2, 3}), y = at::empty({2, 3});
  expect_error([&] { run_kernel(kSoftmax, {x}, {y}, {2}); }, "[kernel softmax] got 1 symbols, expected 2");
  expect_error([&] { run_kernel(kSoftmax, {x, x}, {y}, {2, 3}); }, "got 2 buffers for x0 and so on, expected 1");
  expect_error([&] { run_kernel(kSoftmax, {x}, {y.to(at::kDouble)}, {2, 3}); }, "got Double for y0, expected f32");
  expect_error([&] { run_kernel(kSoftmax, {x}, {y}, {2, 0}); }, "has no elements, so there is no max");
  expect_error([&] { run_kernel(kSoftmax, {x}, {y}, {1 << 20, 1 << 20}); }, "evaluate it at smaller sizes");
  expect_error([&] { run_kernel(kSoftmax, {x}, {y}, {int64_t{1} << 40, int64_t{1} << 40}); }, "leaves 64 bits");
  expect_error([&] { detail::KernelMemory::of(at::randn({2}, at::kComplexFloat).conj()); }, "call resolve_conj()");
}

}  // namespace
}  // namespace diptych
