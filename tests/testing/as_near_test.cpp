// The judge finds what is wrong, and lets pass what eager has otherwise on another CPU.
#include "testing/as_near.h"

#include <limits>

namespace diptych::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

bool is_right(const TensorFunction& function, const at::Tensor& input, const at::Tensor& got) {
  return static_cast<bool>(as_near_as_eager({got}, function, {input}));
}

// As oneDNN's gelu is.
Tensors nan_of_infinity(const Tensors& x) {
  return {x[0].scalar_type() == at::kDouble ? x[0] * 2 : at::where(at::isinf(x[0]), kNan, x[0] * 2)};
}

TEST(AsNear, EagersNumberAndTheTruthAreRightAtSpecialValues) {
  const auto x = at::tensor({1.0, kInfinity, -kInfinity}).to(at::kFloat);
  EXPECT_TRUE(is_right(nan_of_infinity, x, at::tensor({2.0, kNan, kNan}).to(at::kFloat)));
  EXPECT_TRUE(is_right(nan_of_infinity, x, at::tensor({2.0, kInfinity, kNan}).to(at::kFloat)));
  EXPECT_FALSE(is_right(nan_of_infinity, x, at::tensor({2.0, -kInfinity, kNan}).to(at::kFloat)));
  EXPECT_FALSE(is_right(nan_of_infinity, x, at::tensor({2.0, 3e38, kNan}).to(at::kFloat)));
  EXPECT_FALSE(is_right(nan_of_infinity, x, at::tensor({kNan, kNan, kNan}).to(at::kFloat)));
}

TEST(AsNear, AnElementMayBeWhatEagerMakesOfItAloneOrInAVector) {
  const auto ends = [](const Tensors& x) -> Tensors { return {at::logit_backward(at::ones_like(x[0]), x[0])}; };
  const auto x = at::cat({at::tensor({0.0, -0.0, 1.0}), at::full({61}, 0.5)}).to(at::kFloat);
  const at::Tensor eager = ends({x})[0];
  for (const double sign : {1, -1}) {
    auto other = eager.clone();
    other[1] = sign * kInfinity;
    EXPECT_TRUE(is_right(ends, x, other));
    other[2] = -kInfinity;
    EXPECT_FALSE(is_right(ends, x, other));
  }
}

TEST(AsNear, ErrorsAreJudgedByThoseOfEager) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const double unit = unit_of(dtype);
    const auto sines = [](const Tensors& x) -> Tensors { return {x[0].sin()}; };
    const auto x = at::linspace(0.5, 1.5, 50, at::kDouble).to(dtype);
    const auto off_by = [&](double units) { return (x.to(at::kDouble).sin() * (1 + units * unit)).to(dtype); };
    EXPECT_TRUE(is_right(sines, x, off_by(0.25))) << dtype;
    EXPECT_FALSE(is_right(sines, x, off_by(20))) << dtype;
    // Digits cancel out in eager as well.
    const auto rest = [&](const Tensors& t) -> Tensors { return {t[0].sin() * 1024 - t[0].sin() * 1023.5}; };
    const auto rest_off_by = [&](double units) { return rest({x})[0] + units * unit * 512; };
    if (dtype != at::kFloat) continue;
    EXPECT_TRUE(is_right(rest, x, rest_off_by(0.1)));
    EXPECT_FALSE(is_right(rest, x, rest_off_by(20)));
  }
}

TEST(AsNear, IntegersAreExact) {
  const auto twice = [](const Tensors& x) -> Tensors { return {x[0] * 2}; };
  const auto x = at::arange(5);
  EXPECT_TRUE(is_right(twice, x, x * 2));
  EXPECT_FALSE(is_right(twice, x, x * 2 + x.eq(3)));
}

}  // namespace
}  // namespace diptych::testing
