// Samples that programs draw for themselves: their distributions, by the interpreter and by XLA, and what repeats.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "diptych/backend/fallback.h"
#include "diptych/backend/interpreter_backend.h"
#include "diptych/graph/parse.h"
#include "diptych/ops/draw_bits.h"
#include "diptych/ops/samplers.h"
#include "diptych/ops/tags.h"
#include "diptych/passes/draw_on_device.h"
#include "diptych/xla/xla_backend.h"
#include "testing/expect_error.h"

namespace diptych {

using namespace detail;
namespace {

constexpr int64_t kCount = 40001;

struct Case {
  const char* name;
  std::string node;  ///< reads %0, zeros of f32 [40001]
  double (*cumulative)(double x);
  double mean, deviation;  ///< NaN if there is none
};

double normal_below(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double uniform_below(double x) { return std::clamp(x, 0.0, 1.0); }
double fraction_of(double x, double from, double count) {
  return std::clamp((std::floor(x) - from + 1) / count, 0.0, 1.0);
}

const double kNone = std::nan("");
const double kUniformDeviation = std::sqrt(1.0 / 12);

std::vector<Case> cases() {
  const auto exponential = [](double x) { return 1 - std::exp(-2 * x); };
  const auto bernoulli = [](double x) { return x < 1 ? 0.7 : 1.0; };
  return {
      {"rand", "f32[40001] = aten.rand([40001], dtype=f32)", uniform_below, 0.5, kUniformDeviation},
      {"rand_f64", "f64[40001] = aten.rand([40001], dtype=f64)", uniform_below, 0.5, kUniformDeviation},
      {"rand_bf16", "bf16[40001] = aten.rand([40001], dtype=bf16)", uniform_below, 0.498, kUniformDeviation},
      {"rand_f16", "f16[40001] = aten.rand([40001], dtype=f16)", uniform_below, 0.5, kUniformDeviation},
      {"rand_like", "f32[40001] = aten.rand_like(%0)", uniform_below, 0.5, kUniformDeviation},
      {"uniform", "f32[40001] = aten.uniform(%0, 2.0, 5.0)", [](double x) { return uniform_below((x - 2) / 3); }, 3.5,
       3 * kUniformDeviation},
      {"randn", "f32[40001] = aten.randn([40001], dtype=f32)", normal_below, 0, 1},
      {"randn_f64", "f64[40001] = aten.randn([40001], dtype=f64)", normal_below, 0, 1},
      {"randn_f16", "f16[40001] = aten.randn([40001], dtype=f16)", normal_below, 0, 1},
      {"randn_like", "f32[40001] = aten.randn_like(%0)", normal_below, 0, 1},
      {"normal", "f32[40001] = aten.normal_functional(%0, 1.0, 3.0)",
       [](double x) { return normal_below((x - 1) / 3); }, 1, 3},
      {"normal_of_numbers", "f32[40001] = aten.normal.float_float(1.0, 3.0, [40001], dtype=f32)",
       [](double x) { return normal_below((x - 1) / 3); }, 1, 3},
      {"normal_about_tensor", "f32[40001] = aten.normal.Tensor_float(%0, 2.0)",
       [](double x) { return normal_below(x / 2); }, 0, 2},
      {"log_normal", "f32[40001] = aten.log_normal(%0, 0.5, 0.25)",
       [](double x) { return normal_below((std::log(x) - 0.5) / 0.25); }, std::exp(0.5 + 0.03125), 0.4320},
      {"exponential", "f32[40001] = aten.exponential(%0, 2.0)", exponential, 0.5, 0.5},
      {"cauchy", "f32[40001] = aten.cauchy(%0, 1.0, 2.0)",
       [](double x) { return std::atan((x - 1) / 2) / std::numbers::pi + 0.5; }, kNone, kNone},
      {"geometric", "f32[40001] = aten.geometric(%0, 0.3)", [](double x) { return 1 - std::pow(0.7, x); }, 1 / 0.3,
       std::sqrt(0.7) / 0.3},
      {"bernoulli", "f32[40001] = aten.bernoulli.p(%0, 0.3)", bernoulli, 0.3, std::sqrt(0.21)},
      {"bernoulli_never", "f32[40001] = aten.bernoulli.p(%0, 0.0)", [](double) { return 1.0; }, 0, kNone},
      {"bernoulli_always", "f32[40001] = aten.bernoulli.p(%0, 1.0)", [](double x) { return x < 1 ? 0.0 : 1.0; }, 1,
       kNone},
      {"bernoulli_of_tensor", "f32[40001] = aten.bernoulli.Tensor(%0, %1)", [](double x) { return x < 1 ? 0.5 : 1.0; },
       0.5, 0.5},
      {"randint", "i64[40001] = aten.randint(7, [40001], dtype=i64)", [](double x) { return fraction_of(x, 0, 7); }, 3,
       2},
      {"randint_from", "i32[40001] = aten.randint.low(-2, 5, [40001], dtype=i32)",
       [](double x) { return fraction_of(x, -2, 7); }, 1, 2},
      {"randint_like", "f32[40001] = aten.randint_like(%0, 7)", [](double x) { return fraction_of(x, 0, 7); }, 3, 2},
      {"random_from", "f32[40001] = aten.random.from(%0, 3, 10)", [](double x) { return fraction_of(x, 3, 7); }, 6, 2},
      {"random_to", "f32[40001] = aten.random.to(%0, 7)", [](double x) { return fraction_of(x, 0, 7); }, 3, 2},
  };
}

// The bool says whether XLA runs it.
class Samples : public ::testing::TestWithParam<std::tuple<bool, Case>> {};

std::shared_ptr<const Executable> compiled(const Graph& graph, bool by_xla) {
  if (!by_xla) return InterpreterBackend().compile(draw_on_device(graph));
  return compile_with_fallback(XlaBackend(/*draws_on_device=*/true), graph);
}

// Source: Kolmogorov and Smirnov's test, whose bound a right sample passes in 999 cases of 1000.
void expect_distribution(const at::Tensor& sample, double (*cumulative)(double)) {
  const at::Tensor sorted = std::get<0>(sample.to(at::kDouble).sort());
  const auto* const values = sorted.const_data_ptr<double>();
  double largest = 0;
  for (int64_t i = 0; i < sorted.numel(); ++i) {
    const bool is_last = i + 1 == sorted.numel() || values[i + 1] != values[i];
    if (is_last) largest = std::max(largest, std::abs(double(i + 1) / double(sorted.numel()) - cumulative(values[i])));
  }
  EXPECT_LT(largest, 1.95 / std::sqrt(double(sorted.numel())));
}

void expect_moments(const at::Tensor& sample, double mean, double deviation) {
  if (std::isnan(mean)) return;
  const double spread = std::isnan(deviation) ? 0 : deviation, error = spread / std::sqrt(double(sample.numel()));
  EXPECT_NEAR(sample.mean().item<double>(), mean, 4 * error + 1e-3 * std::abs(mean) + 1e-9);
  EXPECT_NEAR(sample.std().item<double>(), spread, 0.03 * spread);
  if (spread == 0) return;
  const at::Tensor x = (sample - mean) / deviation;
  const int64_t half = x.numel() / 2;
  for (const int64_t lag : {int64_t{1}, int64_t{2}, half}) {
    const double product = (x.slice(0, lag) * x.slice(0, 0, x.numel() - lag)).mean().item<double>();
    EXPECT_LT(std::abs(product), 4.5 / std::sqrt(double(x.numel() - lag))) << "lag " << lag;
  }
}

TEST_P(Samples, HaveTheirDistribution) {
  const auto& [by_xla, sample] = GetParam();
  const Graph graph =
      parse("graph f(%0 x : f32[40001], %1 p : f32[40001])\n  %2 : " + sample.node + "\n  return (%2 y)\n");
  const Graph seeded = draw_on_device(graph);
  EXPECT_EQ(std::count_if(seeded.nodes().begin(), seeded.nodes().end(), draws_random), 1) << seeded.code();
  const auto program = compiled(graph, by_xla);
  const auto run = [&] { return program->run({at::zeros({kCount}), at::full({kCount}, 0.5)})[0]; };
  at::manual_seed(3);
  const at::Tensor first = run(), second = run();
  EXPECT_EQ(TensorMeta::of(first), graph.meta(graph.outputs()[0]));
  expect_distribution(first, sample.cumulative);
  expect_moments(first.to(at::kDouble), sample.mean, sample.deviation);
  const bool is_constant = first.min().equal(first.max());
  EXPECT_EQ(first.equal(second), is_constant);
  at::manual_seed(3);
  EXPECT_TRUE(first.equal(run()));
}

INSTANTIATE_TEST_SUITE_P(All, Samples, ::testing::Combine(::testing::Bool(), ::testing::ValuesIn(cases())),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).name) + (std::get<0>(info.param) ? "_xla" : "");
                         });

TEST(Samples, EachRowIsTested) {
  std::vector<std::string> missing;
  for (const Sampler& row : all_samplers()) {
    const std::string name(row.op);
    // Without a generator these are the operators of the same name.
    if (name.find("generator") != std::string::npos || name == "aten.randint_like.low_dtype") continue;
    bool found = false;
    for (const Case& known : cases()) found = found || known.node.find(name + "(") != std::string::npos;
    if (!found) missing.push_back(name);
  }
  EXPECT_EQ(missing, std::vector<std::string>());
}

TEST(Samples, ExponentialNumbersAreNeverZeroOrInfinite) {
  const Graph graph = parse("graph f(%0 x : f32[40001])\n  %1 : f32[40001] = aten.exponential(%0)\n  return (%1 y)\n");
  const at::Tensor sample = compiled(graph, true)->run({at::zeros({kCount})})[0];
  EXPECT_GT(sample.min().item<float>(), 0);
  EXPECT_TRUE(at::isfinite(sample).all().item<bool>());
}

// Of a million normal numbers about 63 lie beyond 4 deviations, and about 0.6 beyond 5.
TEST(Samples, NormalNumbersHaveTheirTails) {
  const Graph graph = parse("graph f()\n  %0 : f32[1000000] = aten.randn([1000000], dtype=f32)\n  return (%0 y)\n");
  at::manual_seed(1);
  const at::Tensor sample = compiled(graph, true)->run({})[0].abs();
  EXPECT_NEAR(sample.gt(3).sum().item<double>(), 2700, 4 * std::sqrt(2700.0));
  EXPECT_NEAR(sample.gt(4).sum().item<double>(), 63, 4 * std::sqrt(63.0));
  EXPECT_LT(sample.max().item<double>(), 6.4);
  EXPECT_NEAR(sample.lt(0.01).sum().item<double>(), 7979, 4 * std::sqrt(7979.0));
}

TEST(Samples, BitsOfWhatIsNoState) {
  const auto draw = [](const at::Tensor& state, at::ScalarType dtype) {
    c10::Stack stack{state, std::vector<int64_t>{3}, dtype};
    draw_bits_operator().handle().callBoxed(stack);
    return stack;
  };
  testing::expect_error([&] { draw(at::ones({2}), at::kInt); },
                        "[draw_bits] got a state of dtype Float with 2 elements");
  testing::expect_error([&] { draw(at::ones({3}, at::kLong), at::kInt); }, "dtype Long with 3 elements");
  testing::expect_error([&] { draw(at::ones({2}, at::kLong), at::kFloat); },
                        "got dtype Float, expected int32 or int64");
  const auto first = draw(at::tensor({7, 0}, at::kLong), at::kLong);
  const auto second = draw(first[1].toTensor(), at::kLong);
  EXPECT_FALSE(at::equal(first[0].toTensor(), second[0].toTensor()));
}

TEST(Samples, KeepTheStridesOfTheirOperand) {
  const Graph graph = parse(
      "graph f(%0 x : f32[4,5]{1,4})\n  %1 : f32[4,5]{1,4} = aten.rand_like(%0)\n"
      "  %2 : f32[4,5]{1,4} = aten.bernoulli.p(%0, 0.5)\n  return (%1 y, %2 z)\n");
  for (const bool by_xla : {false, true}) {
    for (const at::Tensor& sample : compiled(graph, by_xla)->run({at::zeros({5, 4}).t()})) {
      EXPECT_EQ(sample.strides(), at::IntArrayRef({1, 4}));
    }
  }
}

}  // namespace
}  // namespace diptych
