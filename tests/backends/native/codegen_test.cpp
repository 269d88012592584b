// Machine code computes what the reference evaluator does.
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "backends/native/codegen_case.h"
#include "backends/native/dynamic_kernel.h"
#include "backends/native/random_row_kernel.h"
#include "diptych/native/schedule/schedule.h"
#include "testing/rotation.h"

namespace diptych {
namespace {

using testing::expect_code_agrees;
using testing::RandomRowKernel;

TEST(NativeCode, ComputesPointwiseChainsOfAnyLength) {
  for (const int64_t n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 4095, 4096, 4097, 10000}) {
    const std::string text = fmt::format(R"(kernel chain(d0={}) {{
      x0 : f32
      x1 : f32
      y0 : f32
      y1 : f32
      %0 : f32 = load x0[d0]
      %1 : f32 = load x1[d0]
      %2 : f32 = mul %0, %1
      %3 : f32 = exp %2
      %4 : f32 = constant 1.5
      %5 : f32 = add %3, %4
      %6 : f32 = log %5
      store y0[d0] = %6
      store y1[d0] = %2
    }})",
                                         n);
    expect_code_agrees(text, {at::randn({n}), at::randn({n})}, {n, n});
  }
}

constexpr auto kSoftmaxOfSizes = R"(kernel softmax(d0={0}, d1={1}) {{
  x0 : f32
  y0 : f32
  %0 : f32 = load x0[{1}*d0 + d1]
  %1 : f32 = reduce max %0 over d1
  %2 : f32 = sub %0, %1
  %3 : f32 = exp %2
  %4 : f32 = reduce sum %3 over d1
  %5 : f32 = div %3, %4
  store y0[{1}*d0 + d1] = %5
}})";

TEST(NativeCode, ComputesSoftmaxOfShortAndLongRows) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 7}, {1, 1}, {3, 130}, {2, 50257}, {300, 64}}) {
    expect_code_agrees(fmt::format(kSoftmaxOfSizes, rows, columns), {at::randn({rows * columns}) * 10},
                       {rows * columns});
  }
}

TEST(NativeCode, ComputesSumsOverRowsBesideTheRows) {
  expect_code_agrees(R"(kernel both(d0=1000, d1=70) {
    x0 : f32
    y0 : f32
    y1 : f32
    y2 : f32
    %0 : f32 = load x0[70*d0 + d1]
    %1 : f32 = reduce mean %0 over d1
    %2 : f32 = sub %0, %1
    %3 : f32 = reduce sum %2 over d0
    %4 : f32 = mul %2, %2
    %5 : f32 = reduce sum %4 over d0, d1
    %6 : f32 = constant 0.001
    %7 : f32 = mul %5, %6
    store y0[70*d0 + d1] = %2
    store y1[d1] = %3
    store y2[0] = %7
  })",
                     {at::randn({70000}) + 3}, {70000, 70, 1});
}

TEST(NativeCode, ReadsPlacesThatValuesName) {
  expect_code_agrees(R"(kernel gather(d0=33, d1=20) {
    x0 : f32
    x1 : i64
    y0 : f32
    y1 : f32
    %0 : i64 = load x1[d0]
    %1 : f32 = load x0[20*%0 + d1]
    %2 : i64 = index d1
    %3 : b8 = eq %2, %0
    %4 : f32 = constant 7
    %5 : f32 = load x0[19 - d1] if %3 else %4
    store y0[20*d0 + d1] = %1
    store y1[d0 + 33*d1] = %5
  })",
                     {at::randn({12 * 20}), at::randint(12, {33})}, {660, 660});
}

TEST(NativeCode, AddsAtPlacesThatValuesName) {
  const auto indices = at::randint(12, {33});
  for (const auto& [name, dtype] : {std::pair<std::string, at::ScalarType>{"f32", at::kFloat},
                                    {"f64", at::kDouble},
                                    {"i64", at::kLong},
                                    {"u8", at::kByte}}) {
    const auto text = fmt::format(R"(kernel scatter(d0=33, d1=70) {{
      x0 : {0}
      x1 : i64
      y0 : {0}
      %0 : i64 = load x1[d0]
      %1 : {0} = load x0[70*d0 + d1]
      store add y0[70*%0 + d1] = %1
    }})",
                                  name);
    expect_code_agrees(text, {at::randint(-100, 100, {33 * 70}).to(dtype), indices}, {12 * 70});
  }
}

// The sum over slices for each position, beside what is added to it and another output.
constexpr auto kScatteredSum = R"(kernel scatter(d0=500, d1={1}, d2={0}) {{
  x0 : f32
  x1 : i64
  x2 : f32
  y0 : f32
  y1 : b8
  %0 : i64 = index d0
  %1 : i64 = load x1[d2]
  %2 : b8 = eq %0, %1
  %3 : f32 = load x0[{1}*d2 + d1]
  %4 : f32 = constant 0
  %5 : f32 = select %2, %3, %4
  %6 : f32 = reduce sum %5 over d2
  %7 : f32 = load x2[{1}*d0 + d1]
  %8 : f32 = mul %7, %7
  %9 : f32 = add %8, %6
  %10 : i64 = constant 0
  %11 : b8 = lt %1, %10
  %12 : b8 = reduce any %11 over d0, d1, d2
  store y0[{1}*d0 + d1] = %9
  store y1[0] = %12
}})";

TEST(NativeCode, SumsAtEachPositionWithoutVisitingAllForEachSlice) {
  for (const auto& [slices, columns] : {std::pair<int64_t, int64_t>{7, 20}, {60, 33}, {2, 1}, {1, 17}}) {
    const auto kernel = detail::parse_kernel(fmt::format(kScatteredSum, slices, columns));
    for (const int64_t lowest : {0, -300}) {
      const auto indices = at::cat({at::randint(lowest, 900, {slices - 1}), at::randint(500, {1})});
      expect_code_agrees(kernel, {at::randn({slices * columns}), indices, at::randn({500 * columns})},
                         {500 * columns, 1});
    }
  }
}

// A loss of classes: what a label picks of each row, beside the row's sum.
constexpr auto kPicked = R"(kernel picked(d0={0}, d1={1}) {{
  x0 : f32
  x1 : i64
  x2 : f32
  y0 : f32
  y1 : f32
  %0 : f32 = load x0[{1}*d0 + d1]
  %1 : f32 = reduce max %0 over d1
  %2 : f32 = sub %0, %1
  %3 : f32 = exp %2
  %4 : f32 = reduce sum %3 over d1
  %5 : i64 = index 3 - d1
  %6 : f32 = cast %5
  %7 : i64 = index d1
  %8 : i64 = constant 4
  %9 : b8 = lt %7, %8
  %10 : f32 = load x2[d1] if %9 else %6
  %11 : f32 = mul %2, %10
  %12 : f32 = div %11, %4
  %13 : i64 = load x1[d0]
  %14 : b8 = eq %7, %13
  %15 : f32 = constant 0
  %16 : f32 = select %14, %12, %15
  %17 : f32 = reduce sum %16 over d1
  %18 : f32 = reduce sum %17 over d0
  store y0[d0] = %17
  store y1[0] = %18
}})";

TEST(NativeCode, PicksOneElementOfARow) {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{5, 7}, {1, 4}, {130, 10}, {2, 9000}, {40, 33}}) {
    const auto labels = at::cat({at::randint(-3, columns + 3, {rows - 1}), at::randint(columns, {1})});
    expect_code_agrees(fmt::format(kPicked, rows, columns), {at::randn({rows * columns}), labels, at::randn({4})},
                       {rows, 1});
  }
}

// Of a product in a half type, as the loss of such logits has it.
TEST(NativeCode, PicksOneElementOfARowOfHalves) {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    const auto text = fmt::format(R"(kernel picked(d0=9, d1=40) {{
      x0 : {0}
      x1 : i64
      y0 : f32
      %0 : {0} = load x0[40*d0 + d1]
      %1 : f32 = cast %0
      %2 : f32 = exp %1
      %3 : f32 = reduce sum %2 over d1
      %4 : f32 = div %2, %3
      %5 : i64 = load x1[d0]
      %6 : i64 = index d1
      %7 : b8 = eq %6, %5
      %8 : f32 = constant 0
      %9 : f32 = select %7, %4, %8
      %10 : f32 = reduce sum %9 over d1
      store y0[d0] = %10
    }})",
                                  dtype == at::kHalf ? "f16" : "bf16");
    std::string why;
    const auto schedule = detail::make_schedule(detail::parse_kernel(text), why);
    ASSERT_TRUE(schedule) << why;
    const auto sums = std::ranges::count_if(schedule->kernel.values, [](const detail::KernelValue& value) {
      return std::holds_alternative<detail::KernelReduce>(value.made_by);
    });
    EXPECT_EQ(sums, 1);  // the other one is a load
    expect_code_agrees(text, {at::randn({360}).to(dtype), at::randint(-3, 43, {9})}, {9});
  }
}

TEST(NativeCode, PicksElementsOfADimThatHasNoOtherUse) {
  for (const std::string over : {"d0", "d0, d1"}) {
    const auto kernel = fmt::format(R"(kernel nll(d0=40, d1=12) {{
      x0 : f32
      x1 : i64
      y0 : f32
      y1 : b8
      %0 : f32 = load x0[12*d0 + d1]
      %1 : i64 = load x1[d0]
      %2 : i64 = index d1
      %3 : b8 = eq %1, %2
      %4 : f32 = constant 0
      %5 : f32 = select %3, %0, %4
      %6 : f32 = reduce sum %5 over d1
      %7 : f32 = reduce sum %6 over d0
      %8 : i64 = constant 0
      %9 : b8 = lt %1, %8
      %10 : b8 = reduce any %9 over {}
      store y0[0] = %7
      store y1[0] = %10
    }})",
                                    over);
    expect_code_agrees(kernel, {at::randn({480}), at::randint(-2, 14, {40})}, {1, 1});
  }
}

TEST(NativeCode, AddsNothingWherePointsMayMeetAlongAllDims) {
  const std::string why = detail::codegen_problem(detail::parse_kernel(R"(kernel k(d0=9) {
    x0 : f32
    x1 : i64
    y0 : f32
    %0 : f32 = load x0[d0]
    %1 : i64 = load x1[d0]
    store add y0[%1] = %0
  })"))
                              .value_or("");
  EXPECT_EQ(why, "stores that add, of which all may be to one element");
}

// Each slice would be visited for each position: LibTorch does better.
TEST(NativeCode, SumsNothingAtPositionsThatAreNoStoresIndex) {
  for (const std::string position : {"d0", "2*d0 + 1"}) {
    for (const std::string stored : {"%6", "%7"}) {
      const std::string why = detail::codegen_problem(detail::parse_kernel(fmt::format(R"(kernel k(d0=50, d1=9) {{
        x0 : f32
        x1 : i64
        y0 : f32
        %0 : i64 = index {}
        %1 : i64 = load x1[d1]
        %2 : b8 = eq %0, %1
        %3 : f32 = load x0[d1]
        %4 : f32 = constant 0
        %5 : f32 = select %2, %3, %4
        %6 : f32 = reduce sum %5 over d1
        %7 : f32 = exp %6
        store y0[d0] = {}
      }})",
                                                                                       position, stored)))
                                  .value_or("");
      if (position != "d0" || stored != "%6") {
        EXPECT_EQ(why, "a sum at places that indices name, of which more is made");
      }
    }
  }
}

TEST(NativeCode, KeepsSpecialNumbers) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto x = at::tensor({0.0, -0.0, nan, infinity, -infinity, 1e-310, -1.5, 2.5, 3e300, 0.5, -0.5, 1.0});
  for (const std::string op : {"neg", "abs", "sign", "sqrt", "rsqrt", "exp", "expm1", "log", "log1p", "floor", "ceil",
                               "trunc", "round", "tanh", "erf"}) {
    for (const std::string dtype : {"f32", "f64"}) {
      const auto text = fmt::format(
          "kernel k(d0=12) {{ x0 : {0}\n y0 : {0}\n %0 : {0} = load x0[d0]\n %1 : {0} = {1} %0\n store y0[d0] = %1\n "
          "}}",
          dtype, op);
      SCOPED_TRACE(text);
      expect_code_agrees(text, {dtype == "f32" ? x.to(at::kFloat) : x}, {12});
    }
  }
}

TEST(NativeCode, ComputesTheInverseOfErfAndDigamma) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto special = at::tensor({0.0, -0.0, nan, infinity, -infinity, 1.0, -1.0, -2.0, 10.0, 1.5, -1.5, 1e-310});
  const auto inside = at::rand({1500}, at::kDouble) * 2 - 1;
  for (const std::string op : {"erfinv", "digamma"}) {
    const auto x = at::cat({special, inside, inside * 1e-6, op == "erfinv" ? 1 - inside * 1e-4 : inside * 30});
    for (const std::string dtype : {"f32", "f64"}) {
      const auto text = fmt::format(
          "kernel k(d0={2}) {{ x0 : {0}\n y0 : {0}\n %0 : {0} = load x0[d0]\n %1 : {0} = {1} %0\n store y0[d0] = %1\n "
          "}}",
          dtype, op, x.numel());
      SCOPED_TRACE(text);
      expect_code_agrees(text, {dtype == "f32" ? x.to(at::kFloat) : x}, {x.numel()});
    }
  }
}

TEST(NativeCode, RaisesIntegersOfAllWidthsToAnyPower) {
  const std::vector<std::pair<std::string, at::ScalarType>> dtypes = {
      {"u8", at::kByte}, {"i8", at::kChar}, {"i16", at::kShort}, {"i32", at::kInt}, {"i64", at::kLong}};
  for (const auto& [name, dtype] : dtypes) {
    for (const int64_t n : {1, 700}) {
      const auto bases = at::cat({at::randint(-3, 4, {n}), at::randint(-128, 128, {n})}).to(dtype);
      const auto exponents = at::cat({at::randint(-4, 70, {n}), at::randint(-128, 128, {n})}).to(dtype);
      const auto text = fmt::format(
          "kernel k(d0={1}) {{ x0 : {0}\n x1 : {0}\n y0 : {0}\n %0 : {0} = load x0[d0]\n %1 : {0} = load x1[d0]\n"
          " %2 : {0} = pow %0, %1\n store y0[d0] = %2\n }}",
          name, 2 * n);
      SCOPED_TRACE(text);
      expect_code_agrees(text, {bases, exponents}, {2 * n});
    }
  }
}

// The elements of one output of a kernel that a number of threads computes.
at::Tensor run_with_threads(const detail::Kernel& kernel, at::Tensor input, int64_t count, int threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  const auto output = at::zeros({count}, kernel.outputs[0]);
  void* const from = input.data_ptr();
  void* const to = output.data_ptr();
  detail::compile_kernel(kernel)->run(&from, &to, {});
  at::set_num_threads(before);
  return output;
}

TEST(NativeCode, ComputesTheSameWithAnyNumberOfThreads) {
  const auto x = at::randn({3000 * 70});
  for (const std::string over : {"d0", "d1", "d0, d1"}) {
    const std::string map = over == "d0" ? "d1" : over == "d1" ? "d0" : "0";
    const auto kernel = detail::parse_kernel(fmt::format(
        "kernel sums(d0=3000, d1=70) {{\n x0 : f32\n y0 : f32\n %0 : f32 = load x0[70*d0 + d1]\n %1 : f32 = exp %0\n"
        " %2 : f32 = reduce sum %1 over {}\n store y0[{}] = %2\n}}",
        over, map));
    const auto one = run_with_threads(kernel, x, 3000, 1);
    for (const int threads : {2, 3, 8}) {
      EXPECT_TRUE(run_with_threads(kernel, x, 3000, threads).equal(one)) << over << ", threads: " << threads;
    }
  }
}

TEST(NativeCode, AddsTheSameWithAnyNumberOfThreads) {
  const auto kernel = detail::parse_kernel(fmt::format(kScatteredSum, 600, 700));
  const auto slices = at::randn({600 * 700}), indices = at::randint(20, {600}), base = at::randn({500 * 700});
  const auto run = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const auto sums = at::zeros({500 * 700}), check = at::zeros({1}, at::kBool);
    const std::vector<void*> from = {slices.data_ptr(), indices.data_ptr(), base.data_ptr()};
    const std::vector<void*> to = {sums.data_ptr(), check.data_ptr()};
    detail::compile_kernel(kernel)->run(from.data(), to.data(), {});
    at::set_num_threads(before);
    return sums;
  };
  const auto one = run(1);
  for (const int threads : {2, 3, 8}) EXPECT_TRUE(run(threads).equal(one)) << "threads: " << threads;
}

TEST(NativeCode, AgreesOnRandomKernels) {
  size_t compiled = 0;
  const auto seeds = testing::rotating_seeds(0, 300);
  for (const uint32_t seed : seeds) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRowKernel random(seed);
    random.make();
    if (detail::codegen_problem(random.kernel)) continue;
    ++compiled;
    expect_code_agrees(random.kernel, random.inputs, random.output_counts);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(compiled, testing::share_of(seeds.size(), 200, 300));  // of the others, what they end in is at odds
}

// Texts of shorter vectors than the host's, which are what machines with such vectors run.
TEST(NativeCode, AgreesOnRandomKernelsByShorterVectors) {
  for (int bytes = 16; bytes < detail::host_code_target().vector_bytes; bytes *= 2) {
    const detail::CodeTarget target{bytes, /*has_sleef=*/false};
    size_t compiled = 0;
    const auto seeds = testing::rotating_seeds(300, 1500);
    for (const uint32_t seed : seeds) {
      SCOPED_TRACE(fmt::format("seed {}, vectors of {} bytes", seed, bytes));
      RandomRowKernel random(seed);
      random.make();
      if (detail::codegen_problem(random.kernel, target)) continue;
      ++compiled;
      expect_code_agrees(random.kernel, random.inputs, random.output_counts, {}, target);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GE(compiled, testing::share_of(seeds.size(), 30, 1200));  // the others call SLEEF
  }
}

TEST(NativeCode, AgreesOnRandomKernelsWithSymbols) {
  size_t compiled = 0;
  const auto seeds = testing::rotating_seeds(0, 300);
  for (const uint32_t seed : seeds) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomRowKernel random(seed);
    random.make();
    const testing::DynamicKernel dynamic = testing::with_symbols(random.kernel, seed);
    if (detail::codegen_problem(dynamic.kernel)) continue;
    ++compiled;
    expect_code_agrees(dynamic.kernel, random.inputs, random.output_counts, dynamic.symbols);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GE(compiled, testing::share_of(seeds.size(), 150, 300));
}

constexpr auto kRowsOfAnySize =
    "kernel rows(d0=s0, d1=s1) where s0=8, s1=100 {\n x0 : f32\n y0 : f32\n y1 : f32\n"
    " %0 : f32 = load x0[s1*d0 + d1]\n %1 : f32 = exp %0\n %2 : f32 = reduce mean %1 over d1\n"
    " %3 : f32 = div %1, %2\n %4 : f32 = reduce sum %3 over d0\n"
    " store y0[s1*d0 + d1] = %3\n store y1[d1] = %4\n}";

TEST(NativeCode, ServesAllSizesByOneKernel) {
  const auto kernel = detail::parse_kernel(kRowsOfAnySize);
  const auto code = detail::compile_kernel(kernel);
  for (const auto& [rows, length] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 7}, {8, 100}, {200, 64}, {2, 20'000}, {70, 4097}}) {
    SCOPED_TRACE(fmt::format("{} rows of {}", rows, length));
    expect_code_agrees(kernel, {at::randn({rows * length})}, {rows * length, length}, {rows, length});
    EXPECT_EQ(detail::compile_kernel(kernel), code);
  }
}

TEST(NativeCode, RunsAgainWhereACallFoundNoMemory) {
  const auto kernel = detail::parse_kernel(kRowsOfAnySize);
  const auto expect_right = [&] { expect_code_agrees(kernel, {at::randn({300})}, {300, 100}, {3, 100}); };
  expect_right();
  const std::vector<int64_t> more_than_there_is = {1, int64_t{1} << 50};
  EXPECT_THROW(detail::compile_kernel(kernel)->run(nullptr, nullptr, more_than_there_is), std::exception);
  expect_right();
}

}  // namespace
}  // namespace diptych
