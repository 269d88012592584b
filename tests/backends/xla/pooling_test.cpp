// Pooling with its indices and gradients, against eager.
#include <ATen/Parallel.h>
#include <limits>

#include "backends/xla/operator_calls.h"
#include "backends/xla/xla_check.h"

namespace diptych {
namespace {

using testing::expect_call;
using testing::expect_lowered;
using testing::list_of;
using testing::XlaCheck;

struct PoolCase {
  std::vector<int64_t> x, kernel, stride, padding, dilation;
  bool rounds_up = false;
};

const PoolCase kPoolCases[] = {
    {{2, 3, 8, 9}, {2, 2}, {}, {0, 0}, {1, 1}},
    {{2, 3, 8, 9}, {3, 2}, {2, 1}, {1, 1}, {1, 1}},
    {{3, 8, 9}, {3, 3}, {2, 2}, {1, 0}, {1, 1}, true},
    {{2, 3, 7, 7}, {3, 3}, {2, 2}, {1, 1}, {2, 2}},
    {{1, 2, 5, 6}, {2, 3}, {4, 3}, {0, 1}, {1, 1}, true},
    {{1, 1, 6, 6}, {6, 6}, {}, {0, 0}, {1, 1}},
    {{0, 2, 5, 6}, {2, 2}, {}, {0, 0}, {1, 1}},
    {{2, 2, 5, 6, 4}, {2, 3, 2}, {2, 1, 2}, {0, 1, 1}, {1, 1, 1}},
    {{2, 5, 6, 7}, {2, 2, 2}, {}, {1, 0, 1}, {2, 1, 1}, true},
};

std::string pooling(const std::string& start, const PoolCase& example, const std::string& end) {
  return "aten." + start + std::to_string(example.kernel.size()) + "d" + end;
}

void expect_maximum(const PoolCase& example, const at::Tensor& x) {
  const std::vector<Operand> options{list_of(example.kernel), list_of(example.stride), list_of(example.padding),
                                     list_of(example.dilation), c10::IValue(example.rounds_up)};
  expect_lowered(pooling("max_pool", example, "_with_indices"), {x}, options);
  if (!x.is_floating_point() || x.numel() == 0) return;
  const auto [y, indices] = example.kernel.size() == 2
                                ? at::max_pool2d_with_indices(x, example.kernel, example.stride, example.padding,
                                                              example.dilation, example.rounds_up)
                                : at::max_pool3d_with_indices(x, example.kernel, example.stride, example.padding,
                                                              example.dilation, example.rounds_up);
  XlaCheck check;
  std::vector<Operand> operands{check.input(at::randn(y.sizes()).to(x.dtype())), check.input(x)};
  operands.insert(operands.end(), options.begin(), options.end());
  if (example.stride.empty()) operands[3] = list_of(example.kernel);
  operands.emplace_back(check.input(indices));
  check.expect_eager({check.node(pooling("max_pool", example, "_with_indices_backward"), operands)});
}

TEST(XlaPooling, Maxima) {
  at::manual_seed(0);
  for (const auto& example : kPoolCases) expect_maximum(example, at::randn(example.x));
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16})
    expect_maximum(kPoolCases[1], at::randn({2, 3, 8, 9}).to(dtype));
  for (const auto dtype : {at::kLong, at::kInt, at::kByte})
    expect_maximum(kPoolCases[1], at::randint(0, 5, {2, 3, 8, 9}).to(dtype));
  expect_maximum(kPoolCases[1], at::randn({2, 3, 8, 9}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_maximum(kPoolCases[1], at::randn({2, 3, 9, 8}).transpose(2, 3));
}

TEST(XlaPooling, ElementsAtTheirPlaces) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 3, 8, 9}).to(dtype), volume = at::randn({2, 4, 6, 5}).to(dtype);
    const auto [y, places] = at::max_pool2d_with_indices(x, {3, 2}, {2, 1}, {1, 1});
    expect_lowered("aten.max_unpool2d", {y, places}, {list_of({8, 9})});
    expect_lowered("aten.max_unpool2d", {y[1], places[1]}, {list_of({9, 9})});
    const auto [z, inside] = at::max_pool3d_with_indices(volume, 2);
    expect_lowered("aten.max_unpool3d", {z, inside}, {list_of({4, 6, 5}), list_of({2, 2, 2}), list_of({0, 0, 0})});
  }
  const at::Tensor image = at::randn({2, 3, 9, 8}), volume = at::randn({2, 2, 6, 7, 5});
  const auto [y, places] = at::fractional_max_pool2d(image, {3, 2}, {4, 5}, at::rand({2, 3, 2}));
  expect_call("aten.fractional_max_pool2d_backward",
              {at::randn(y.sizes()), image, list_of({3, 2}), list_of({4, 5}), places});
  const auto [z, inside] = at::fractional_max_pool3d(volume, {3, 2, 2}, {2, 4, 3}, at::rand({2, 2, 3}));
  expect_call("aten.fractional_max_pool3d_backward",
              {at::randn(z.sizes()), volume, list_of({3, 2, 2}), list_of({2, 4, 3}), inside});
  // Of several numbers for one place eager's threads race for the last word.
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor repeated = at::zeros({1, 4, 3}, at::kLong);
  expect_lowered("aten.max_unpool2d", {at::randn({1, 4, 3}), repeated}, {list_of({2, 2})});
  at::set_num_threads(threads);
}

// The first of equal elements, the last NaN, and the first element of a window of -infinities.
TEST(XlaPooling, TiesAndNan) {
  at::manual_seed(0);
  at::Tensor x = at::randint(0, 2, {1, 2, 8, 9}).to(at::kFloat);
  expect_maximum(kPoolCases[1], x);
  x.view(-1).slice(0, 0, x.numel(), 5).fill_(NAN);
  expect_maximum(kPoolCases[1], x);
  x.fill_(-std::numeric_limits<float>::infinity());
  expect_maximum(kPoolCases[1], x);
  expect_maximum(kPoolCases[3], x);
  expect_maximum(kPoolCases[1], at::full({1, 2, 8, 9}, std::numeric_limits<int64_t>::min(), at::kLong));
}

void expect_average(const PoolCase& example, at::ScalarType dtype, bool counts_padding, c10::IValue divisor) {
  const at::Tensor x = at::randn(example.x).to(dtype);
  std::vector<Operand> options{list_of(example.kernel),        list_of(example.stride),     list_of(example.padding),
                               c10::IValue(example.rounds_up), c10::IValue(counts_padding), divisor};
  const std::string op = pooling("avg_pool", example, "");
  expect_lowered(op, {x}, options);
  XlaCheck check;
  const Value input = check.input(x);
  std::vector<Operand> operands{input};
  operands.insert(operands.end(), options.begin(), options.end());
  const Value y = check.node(op, operands);
  operands.insert(operands.begin(), check.node("aten.sin", {y}));
  if (example.stride.empty()) operands[3] = list_of(example.kernel);
  check.expect_eager({check.node(op + "_backward", operands)});
}

TEST(XlaPooling, Averages) {
  at::manual_seed(0);
  bool counts_padding = false;
  for (const auto& example : kPoolCases) {
    if (example.x[0] == 0) continue;
    expect_average(example, at::kFloat, counts_padding = !counts_padding, {});
    expect_average(example, at::kDouble, !counts_padding, {});
  }
  expect_average(kPoolCases[2], at::kFloat, true, int64_t{5});
  expect_average(kPoolCases[7], at::kFloat, false, int64_t{-3});
  for (const auto dtype : {at::kHalf, at::kBFloat16}) expect_average(kPoolCases[2], dtype, true, {});
}

TEST(XlaPooling, Adaptive) {
  at::manual_seed(0);
  struct Case {
    std::vector<int64_t> x, output;
  };
  for (const Case& example :
       {Case{{2, 3, 6, 8}, {3, 2}}, {{2, 3, 7, 5}, {3, 2}}, {{3, 7, 5}, {1, 5}}, {{2, 3, 3, 4}, {6, 7}}}) {
    const at::Tensor x = at::randn(example.x);
    expect_lowered("aten._adaptive_avg_pool2d", {x}, {list_of(example.output)});
    expect_lowered("aten.adaptive_max_pool2d", {x}, {list_of(example.output)});
    auto sizes = example.x;
    std::copy(example.output.begin(), example.output.end(), sizes.end() - 2);
    expect_lowered("aten._adaptive_avg_pool2d_backward", {at::randn(sizes), x});
  }
  at::Tensor x = at::randn({1, 1, 7, 5});
  x[0][0][3][2] = NAN, x[0][0][6][0] = std::numeric_limits<float>::infinity();
  expect_lowered("aten._adaptive_avg_pool2d", {x}, {list_of({3, 2})});
  expect_lowered("aten.adaptive_max_pool2d", {x}, {list_of({3, 2})});
  x.fill_(NAN);
  expect_lowered("aten.adaptive_max_pool2d", {x}, {list_of({3, 2})});
  expect_lowered("aten.adaptive_max_pool2d", {at::randn({2, 7, 5}).to(at::kHalf)}, {list_of({3, 5})});
  expect_lowered("aten.adaptive_max_pool3d", {at::randn({2, 5, 6, 4})}, {list_of({3, 4, 3})});
  expect_lowered("aten._adaptive_avg_pool2d", {at::randn({2, 3, 7, 5}).to(at::kBFloat16)}, {list_of({3, 5})});
  expect_lowered("aten._adaptive_avg_pool3d", {at::randn({2, 3, 4, 7, 5})}, {list_of({2, 3, 5})});
  expect_lowered("aten._adaptive_avg_pool3d_backward", {at::randn({2, 3, 2, 3, 5}), at::randn({2, 3, 4, 7, 5})});
  const at::Tensor even = at::randn({2, 3, 6, 8});
  expect_lowered("aten.adaptive_max_pool2d", {even}, {list_of({3, 2})});
  expect_lowered("aten.adaptive_max_pool2d_backward",
                 {at::randn({2, 3, 3, 2}), even, std::get<1>(at::adaptive_max_pool2d(even, {3, 2}))});
  expect_lowered("aten.adaptive_max_pool3d", {at::randn({3, 2, 6, 4})}, {list_of({1, 3, 2})});
}

}  // namespace
}  // namespace diptych
