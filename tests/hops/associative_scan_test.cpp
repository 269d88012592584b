// dp::associative_scan's values, the trees that it takes, and how its work and its captures grow with the length.
#include "hops/associative_operators.h"

#include <cmath>

namespace diptych::testing {
namespace {

const std::vector<int64_t> kLengths{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100};

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }

TEST(AssociativeScan, AgreesWithTheLoop) {
  torch::manual_seed(1);
  for (const auto& op : associative_operators()) {
    for (const int64_t dim : op.takes_any_dim ? std::vector<int64_t>{0, 1, -1} : std::vector<int64_t>{0}) {
      for (const bool reverse : {false, true}) {
        for (const int64_t length : kLengths) {
          SCOPED_TRACE(c10::str(op.name, ", length ", length, " along ", dim, reverse ? " in reverse" : ""));
          const Tensors xs = random_elements(op, length, dim);
          const AssociativeScanOptions options{.reverse = reverse, .dim = dim};
          EXPECT_TRUE(same_tensors(associative_scan(op.f, xs, options), scan_by_loop(op.f, xs, options), within(1e-9)));
        }
      }
    }
  }
}

TEST(AssociativeScan, AgreesWithCumsumOfIntegers) {
  torch::manual_seed(2);
  for (const auto dtype : {torch::kInt64, torch::kInt32, torch::kUInt8}) {
    for (const int64_t length : kLengths) {
      const auto x = torch::randint(0, 100, {2, length}, dtype);
      const auto got = associative_scan(add, x, {.dim = -1});
      EXPECT_TRUE(at::equal(got, at::cumsum(x, 1, dtype))) << length;
      const auto reversed = associative_scan(add, x, {.reverse = true, .dim = -1});
      EXPECT_TRUE(at::equal(reversed, at::cumsum(x.flip(1), 1, dtype).flip(1))) << length;
    }
  }
}

TEST(AssociativeScan, DoesNotCommuteTheArguments) {
  // 2x2 integer matrices do not commute, and integer products are exact.
  torch::manual_seed(3);
  const Combine product = [](const Tensors& a, const Tensors& b) -> Tensors { return {at::bmm(a[0], b[0])}; };
  for (const bool reverse : {false, true}) {
    const Tensors xs{torch::randint(-2, 3, {21, 2, 2}, torch::kInt64)};
    const AssociativeScanOptions options{.reverse = reverse};
    EXPECT_TRUE(at::equal(scan_by_loop(product, xs, options)[0], associative_scan(product, xs, options)[0]));
  }
}

struct Segment {
  at::Tensor starts;                     // b8[n]
  std::map<std::string, at::Tensor> by;  // f64[n], i64[n, 2]
  std::optional<at::Tensor> best;        // f32[n, 3]
  std::string unit = "m";
  DIPTYCH_FIELDS(starts, by, best, unit)
};

// A sum that begins anew where a segment starts, with leaves of several dtypes and shapes.
Segment join_segments(const Segment& a, const Segment& b) {
  const auto sum = [](const at::Tensor& starts, const at::Tensor& x, const at::Tensor& y) {
    return at::where(starts, y, x + y);
  };
  return {a.starts | b.starts,
          {{"length", sum(b.starts, a.by.at("length"), b.by.at("length"))},
           {"count", sum(b.starts.unsqueeze(1), a.by.at("count"), b.by.at("count"))}},
          at::maximum(*a.best, *b.best),
          a.unit};
}

TEST(AssociativeScan, TakesAnyTreeOfSeveralDtypesAndShapes) {
  torch::manual_seed(4);
  const int64_t length = 13;
  const Segment xs{torch::rand({length}) < 0.3,
                   {{"length", torch::randn({length}, torch::kFloat64)},
                    {"count", torch::randint(0, 9, {length, 2}, torch::kInt64)}},
                   torch::randn({length, 3})};
  const Combine flat_join = [&](const Tensors& a, const Tensors& b) {
    return flatten(join_segments(unflatten(xs, a), unflatten(xs, b))).tensors;
  };
  const Segment ys = associative_scan(join_segments, xs);
  EXPECT_EQ(ys.unit, "m");
  EXPECT_TRUE(same_tensors(flatten(ys).tensors, scan_by_loop(flat_join, flatten(xs).tensors), within(1e-9)));
}

TEST(AssociativeScan, TakesAResultOfAnotherTypeWithTheSameStructure) {
  const auto x = torch::arange(1.0, 6.0);
  const auto [products, sums] = associative_scan(
      [](const auto& a, const auto& b) { return std::tuple(a.first * b.first, a.second + b.second); }, std::pair(x, x));
  EXPECT_TRUE(at::equal(products, x.cumprod(0)));
  EXPECT_TRUE(at::equal(sums, x.cumsum(0)));
}

TEST(AssociativeScan, CountsANegativeDimFromEachLeafsLast) {
  const std::pair xs(torch::ones({2, 5}), torch::ones({5}));
  const auto f = [](const auto& a, const auto& b) { return std::pair(a.first + b.first, a.second + b.second); };
  const auto ys = associative_scan(f, xs, {.dim = -1});
  EXPECT_TRUE(at::equal(ys.first, torch::ones({2, 5}).cumsum(1)));
  EXPECT_TRUE(at::equal(ys.second, torch::ones({5}).cumsum(0)));
}

TEST(AssociativeScan, TakesExpandedTransposedAndEmptyTensors) {
  // Other orders of summation differ by a few roundings, which are much of a sum that happens to be near zero.
  const auto transposed = torch::randn({3, 9}, torch::kFloat64).t();
  for (const auto& x : {torch::ones({1, 3}).expand({9, 3}), transposed, torch::ones({9, 0})}) {
    EXPECT_TRUE(at::allclose(associative_scan(add, x), x.cumsum(0), 0, 1e-13));
  }
}

TEST(AssociativeScan, SharesNoMemoryWithItsArguments) {
  const auto first = [](const at::Tensor& a, const at::Tensor&) { return a; };
  for (const int64_t length : {0, 1, 2, 3, 8}) {
    const auto x = torch::ones({length, 2});
    const auto y = associative_scan(first, x);
    EXPECT_FALSE(y.is_alias_of(x)) << length;
    EXPECT_FALSE(y.is_view()) << length;
  }
}

TEST(AssociativeScan, LetsTheFunctionChangeItsIntermediates) {
  const auto f = [](const Tensors& a, const Tensors& b) -> Tensors {
    auto shift = b[0] * a[1];
    shift.add_(b[1]);
    auto scale = at::empty_like(a[0]);
    at::mul_out(scale, a[0], b[0]);
    return {scale, shift};
  };
  const auto affine = affine_operator();
  const Tensors xs = random_elements(affine, 11, 0);
  EXPECT_TRUE(same_tensors(associative_scan(f, xs), scan_by_loop(affine.f, xs), within(1e-9)));
}

TEST(AssociativeScan, NestsInItself) {
  const auto x = torch::randn({6, 5}, torch::kFloat64);
  // Differences along the rows, summed, and scanned back along the rows: the sum, by a detour.
  const auto differences = [](const at::Tensor& a) {
    return at::cat({a.narrow(1, 0, 1), a.narrow(1, 1, 4) - a.narrow(1, 0, 4)}, 1);
  };
  const auto f = [&](const at::Tensor& a, const at::Tensor& b) {
    return associative_scan(add, differences(a) + differences(b), {.dim = 1});
  };
  EXPECT_TRUE(at::allclose(associative_scan(f, x), x.cumsum(0)));
  expect_as_eager([&]() -> Tensors { return {x.clone().requires_grad_()}; },
                  [&](const Tensors& xs) -> Tensors { return {associative_scan(f, xs[0])}; }, {.tolerance = 1e-12});
}

TEST(AssociativeScan, WorksWithoutGradientsAndInInferenceMode) {
  const auto x = torch::randn({9}, torch::kFloat64).requires_grad_();
  {
    const torch::NoGradGuard guard;
    EXPECT_FALSE(associative_scan(add, x).requires_grad());
  }
  const c10::InferenceMode guard;
  const auto y = torch::ones({9});
  EXPECT_TRUE(at::equal(associative_scan(add, y), y.cumsum(0)));
  EXPECT_TRUE(at::allclose(associative_scan(add, x), x.cumsum(0)));
}

TEST(AssociativeScan, CallsTheFunctionLogarithmicallyOftenOnLinearlyManyElements) {
  for (const int64_t length : kLengths) {
    int64_t calls = 0, elements = 0;
    associative_scan(
        [&](const at::Tensor& a, const at::Tensor& b) {
          ++calls;
          elements += a.size(0);
          EXPECT_EQ(a.sizes(), b.sizes());
          EXPECT_GE(a.size(0), 1);
          return a + b;
        },
        torch::ones({length}));
    EXPECT_LE(calls, length < 2 ? 0 : 2 * static_cast<int64_t>(std::log2(length))) << length;
    EXPECT_LE(elements, length < 2 ? 0 : 2 * length - 2) << length;
  }
}

size_t nodes_of_capture(int64_t length) {
  const auto f = [](const Tensors& xs) -> Tensors { return associative_scan(affine_operator().f, xs); };
  Tensors xs = random_elements(affine_operator(), length, 0);
  for (auto& x : xs) x.requires_grad_();
  const Pair pair = capture(f, xs);
  return pair.forward.nodes().size() + pair.backward.nodes().size();
}

TEST(AssociativeScan, CapturesGrowWithTheLogarithmOfTheLength) {
  const size_t at_16 = nodes_of_capture(16), at_256 = nodes_of_capture(256), at_4096 = nodes_of_capture(4096);
  EXPECT_EQ(at_256 - at_16, at_4096 - at_256);
  EXPECT_LT(at_4096, 1000U);
}

TEST(AssociativeScan, CompilesToWhatEagerDoes) {
  torch::manual_seed(5);
  for (const auto& op : associative_operators()) {
    for (const int64_t length : {0, 1, 2, 7, 8}) {
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(c10::str(op.name, ", length ", length, reverse ? " in reverse" : ""));
        const Tensors values = random_elements(op, length, 0);
        const auto leaves = [&] {
          Tensors xs;
          for (const auto& x : values) xs.push_back(x.clone().requires_grad_());
          return xs;
        };
        const auto f = [&](const Tensors& xs) { return associative_scan(op.f, xs, {.reverse = reverse}); };
        for (const auto& partition : {default_partition(), min_cut()}) {
          expect_as_eager(leaves, f, {.aot = {.partition = partition}, .tolerance = 1e-12});
        }
      }
    }
  }
}

}  // namespace
}  // namespace diptych::testing
