// Operators of libraries that return numbers, which a captured function asks for.
#include <torch/library.h>

#include "testing/eager_check.h"

namespace diptych::testing {
namespace {

int runs = 0;

int64_t count_positive(const at::Tensor& x) {
  ++runs;
  return (x > 0).sum().item<int64_t>();
}
double largest(const at::Tensor& x) { return x.abs().max().item<double>(); }
std::tuple<at::Tensor, int64_t, bool> scaled(const at::Tensor& x, const std::optional<at::Tensor>& by) {
  const auto n = x.sum().item<int64_t>();
  return {by ? x * *by : x.sin(), n, n > 2};
}
std::tuple<std::vector<int64_t>, std::vector<double>, at::Tensor> listed(at::TensorList all) {
  std::vector<int64_t> counts;
  std::vector<double> sums;
  for (const at::Tensor& one : all) {
    counts.push_back((one > 0).sum().item<int64_t>());
    sums.push_back(one.sum().item<double>());
  }
  return {counts, sums, all[0] * 2};
}
double bump(const at::Tensor& x) {
  x.add_(1);
  return x.sum().item<double>();
}
double noisy(const at::Tensor& x) { return (x.sum() + torch::rand({}, x.options())).item<double>(); }
at::Tensor first_rows(const at::Tensor& x) { return x.slice(0, 0, x[0].item<int64_t>()) * 2; }
int64_t marked(const at::Tensor& x) { return x[0].item<int64_t>(); }

TORCH_LIBRARY(diptych_numbers, m) {
  m.def("count_positive(Tensor x) -> int");
  m.def("largest(Tensor x) -> float");
  m.def("scaled(Tensor x, Tensor? by) -> (Tensor, int, bool)");
  m.def("listed(Tensor[] all) -> (int[], float[], Tensor)");
  m.def("bump(Tensor(a!) x) -> float");
  m.def("noisy(Tensor x) -> float");
  m.def("first_rows(Tensor x) -> Tensor");
  m.def("marked(Tensor x) -> int");
}
TORCH_LIBRARY_IMPL(diptych_numbers, CPU, m) {
  m.impl("count_positive", count_positive);
  m.impl("scaled", scaled);
  m.impl("listed", listed);
  m.impl("bump", bump);
  m.impl("noisy", noisy);
  m.impl("marked", marked);
}
TORCH_LIBRARY_IMPL(diptych_numbers, CompositeExplicitAutograd, m) {
  m.impl("largest", largest);
  m.impl("first_rows", first_rows);
}
TORCH_LIBRARY_IMPL(diptych_numbers, Meta, m) {
  m.impl("marked", [](const at::Tensor&) { return int64_t{0}; });
}

template <class Signature, class... Arguments>
auto call(const char* name, const Arguments&... arguments) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").template typed<Signature>().call(arguments...);
}
int64_t call_count(const at::Tensor& x) {
  return call<int64_t(const at::Tensor&)>("diptych_numbers::count_positive", x);
}
double call_double(const char* name, const at::Tensor& x) { return call<double(const at::Tensor&)>(name, x); }

// Calls `function` in eager and compiled for each argument, twice, and compares results, arguments and generators.
template <class F>
CacheStats expect_numbers_as_eager(const F& function) {
  const auto compiled = aot_function(function);
  for (const std::vector<double>& values :
       {std::vector<double>{1, 2, 3}, {-1, 2, 3}, {1, 2, 3}, {2, -5, 1}, {-1, 2, 3}}) {
    const at::Tensor x = torch::tensor(values, at::kDouble), y = x.clone();
    EXPECT_TRUE(at::equal(compiled(x), function(y)));
    EXPECT_TRUE(at::equal(x, y));
  }
  EXPECT_EQ(compiled.stats().originals, 0U);
  EXPECT_EQ(compiled.stats().hits + compiled.stats().misses, 5U);
  return compiled.stats();
}

TEST(LibraryNumbers, ACaptureHoldsForTheAnswer) {
  const auto stats = expect_numbers_as_eager([](const at::Tensor& x) { return x.exp() * call_count(x * 2); });
  EXPECT_EQ(stats.misses, 2U);  // 3 and 2
  EXPECT_NE(stats.last_miss.find("the value that diptych_numbers::count_positive asks for is 2, was 3"),
            std::string::npos)
      << stats.last_miss;
}

TEST(LibraryNumbers, AKernelForAllDevicesThatReadsValues) {
  expect_numbers_as_eager([](const at::Tensor& x) { return x * call_double("diptych_numbers::largest", x.sin()); });
  expect_numbers_as_eager([](const at::Tensor& x) {
    const at::Tensor rows = call<at::Tensor(const at::Tensor&)>("diptych_numbers::first_rows", x.abs());
    return rows.sum() + x;
  });
}

TEST(LibraryNumbers, BesideTensorsAndInLists) {
  const auto scaled_by = [](const at::Tensor& x, const std::optional<at::Tensor>& by) {
    return call<std::tuple<at::Tensor, int64_t, bool>(const at::Tensor&, const std::optional<at::Tensor>&)>(
        "diptych_numbers::scaled", x, by);
  };
  expect_numbers_as_eager([&](const at::Tensor& x) {
    const auto [first, n, is_large] = scaled_by(x.detach(), std::nullopt);
    const auto [second, m, unused] = scaled_by(first, x);
    return is_large ? first * n + second : second - m;
  });
  expect_numbers_as_eager([](const at::Tensor& x) {
    const auto [counts, sums, twice] =
        call<std::tuple<std::vector<int64_t>, std::vector<double>, at::Tensor>(at::TensorList)>(
            "diptych_numbers::listed", at::TensorList({x, x * 2}));
    return twice * sums.at(1) + counts.at(0);
  });
}

TEST(LibraryNumbers, OneThatWritesToItsArgument) {
  expect_numbers_as_eager([](const at::Tensor& x) {
    const double of_argument = call_double("diptych_numbers::bump", x);
    const at::Tensor y = x * of_argument;
    return call_double("diptych_numbers::bump", y) * y;
  });
}

TEST(LibraryNumbers, AFakeKernelsNumberIsNotTakenForTheAnswer) {
  expect_numbers_as_eager(
      [](const at::Tensor& x) { return x + call<int64_t(const at::Tensor&)>("diptych_numbers::marked", x); });
}

// The number is known from the question, so that the operator runs once a call, as in eager.
TEST(LibraryNumbers, TheOperatorRunsOnceACall) {
  const auto compiled = aot_function([](const at::Tensor& x) { return x * call_count(x); });
  const at::Tensor x = torch::ones({3});
  compiled(x);
  runs = 0;
  compiled(x);
  EXPECT_EQ(runs, 1);
}

TEST(LibraryNumbers, WhatIsRefused) {
  const at::Tensor x = torch::ones({3});
  const auto counts = [](const at::Tensor& x) { return x * call_count(x); };
  expect_error([&] { (void)capture(counts, x); }, "[trace] diptych_numbers::count_positive returns a number");
  const auto takes_largest = [](const at::Tensor& x) { return x * call_double("diptych_numbers::largest", x); };
  expect_error([&] { (void)capture(takes_largest, x); }, "[trace] diptych_numbers::largest returns a number");
  const auto draws = [](const at::Tensor& x) { return x * call_double("diptych_numbers::noisy", x); };
  expect_error([&] { (void)aot_function(draws)(x); },
               "[trace] diptych_numbers::noisy draws random numbers, and returns");
}

}  // namespace
}  // namespace diptych::testing
