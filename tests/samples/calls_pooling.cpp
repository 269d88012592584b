// Pooling with its indices and gradients, against eager.
#include <ATen/ATen.h>
#include <limits>

#include "samples/families.h"

namespace diptych::test {
namespace pooling_calls {
namespace {

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

void expect_maximum(Samples& out, const PoolCase& example, const at::Tensor& x) {
  const std::vector<c10::IValue> options{ints(example.kernel), ints(example.stride), ints(example.padding),
                                         ints(example.dilation), c10::IValue(example.rounds_up)};
  add(out, pooling("max_pool", example, "_with_indices"), {x}, options);
  if (!x.is_floating_point() || x.numel() == 0) return;
  const auto [y, indices] = example.kernel.size() == 2
                                ? at::max_pool2d_with_indices(x, example.kernel, example.stride, example.padding,
                                                              example.dilation, example.rounds_up)
                                : at::max_pool3d_with_indices(x, example.kernel, example.stride, example.padding,
                                                              example.dilation, example.rounds_up);
  std::vector<c10::IValue> operands{at::randn(y.sizes()).to(x.dtype()), x};
  operands.insert(operands.end(), options.begin(), options.end());
  if (example.stride.empty()) operands[3] = ints(example.kernel);
  operands.emplace_back(indices);
  add(out, pooling("max_pool", example, "_with_indices_backward"), operands);
}

void maxima(Samples& out) {
  for (const auto& example : kPoolCases) expect_maximum(out, example, at::randn(example.x));
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16})
    expect_maximum(out, kPoolCases[1], at::randn({2, 3, 8, 9}).to(dtype));
  for (const auto dtype : {at::kLong, at::kInt, at::kByte})
    expect_maximum(out, kPoolCases[1], at::randint(0, 5, {2, 3, 8, 9}).to(dtype));
  expect_maximum(out, kPoolCases[1], at::randn({2, 3, 8, 9}).contiguous(at::MemoryFormat::ChannelsLast));
  expect_maximum(out, kPoolCases[1], at::randn({2, 3, 9, 8}).transpose(2, 3));
}

void elements_at_their_places(Samples& out) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    const at::Tensor x = at::randn({2, 3, 8, 9}).to(dtype), volume = at::randn({2, 4, 6, 5}).to(dtype);
    const auto [y, places] = at::max_pool2d_with_indices(x, {3, 2}, {2, 1}, {1, 1});
    add(out, "aten.max_unpool2d", {y, places}, {ints({8, 9})});
    add(out, "aten.max_unpool2d", {y[1], places[1]}, {ints({9, 9})});
    const auto [z, inside] = at::max_pool3d_with_indices(volume, 2);
    add(out, "aten.max_unpool3d", {z, inside}, {ints({4, 6, 5}), ints({2, 2, 2}), ints({0, 0, 0})});
  }
  const at::Tensor image = at::randn({2, 3, 9, 8}), volume = at::randn({2, 2, 6, 7, 5});
  const auto [y, places] = at::fractional_max_pool2d(image, {3, 2}, {4, 5}, at::rand({2, 3, 2}));
  add(out, "aten.fractional_max_pool2d_backward", {at::randn(y.sizes()), image, ints({3, 2}), ints({4, 5}), places});
  const auto [z, inside] = at::fractional_max_pool3d(volume, {3, 2, 2}, {2, 4, 3}, at::rand({2, 2, 3}));
  add(out, "aten.fractional_max_pool3d_backward",
      {at::randn(z.sizes()), volume, ints({3, 2, 2}), ints({2, 4, 3}), inside});
  // Of several numbers for one place eager's threads would race for the last word.
  const at::Tensor repeated = at::zeros({1, 4, 3}, at::kLong);
  add(out, "aten.max_unpool2d", {at::randn({1, 4, 3}), repeated}, {ints({2, 2})});
}

// The first of equal elements, the last NaN, and the first element of a window of -infinities.
void ties_and_nan(Samples& out) {
  at::Tensor x = at::randint(0, 2, {1, 2, 8, 9}).to(at::kFloat);
  expect_maximum(out, kPoolCases[1], x);
  x.view(-1).slice(0, 0, x.numel(), 5).fill_(NAN);
  expect_maximum(out, kPoolCases[1], x);
  x.fill_(-std::numeric_limits<float>::infinity());
  expect_maximum(out, kPoolCases[1], x);
  expect_maximum(out, kPoolCases[3], x);
  expect_maximum(out, kPoolCases[1], at::full({1, 2, 8, 9}, std::numeric_limits<int64_t>::min(), at::kLong));
}

void expect_average(Samples& out, const PoolCase& example, at::ScalarType dtype, bool counts_padding,
                    c10::IValue divisor) {
  const at::Tensor x = at::randn(example.x).to(dtype);
  std::vector<c10::IValue> options{ints(example.kernel),           ints(example.stride),        ints(example.padding),
                                   c10::IValue(example.rounds_up), c10::IValue(counts_padding), divisor};
  const std::string op = pooling("avg_pool", example, "");
  add(out, op, {x}, options);
  std::vector<c10::IValue> operands{x};
  operands.insert(operands.end(), options.begin(), options.end());
  operands.insert(operands.begin(), eager(out.back())[0].toTensor().sin());
  if (example.stride.empty()) operands[3] = ints(example.kernel);
  add(out, op + "_backward", operands);
}

void averages(Samples& out) {
  bool counts_padding = false;
  for (const auto& example : kPoolCases) {
    if (example.x[0] == 0) continue;
    expect_average(out, example, at::kFloat, counts_padding = !counts_padding, {});
    expect_average(out, example, at::kDouble, !counts_padding, {});
  }
  expect_average(out, kPoolCases[2], at::kFloat, true, int64_t{5});
  expect_average(out, kPoolCases[7], at::kFloat, false, int64_t{-3});
  for (const auto dtype : {at::kHalf, at::kBFloat16}) expect_average(out, kPoolCases[2], dtype, true, {});
}

void adaptive(Samples& out) {
  struct Case {
    std::vector<int64_t> x, output;
  };
  for (const Case& example :
       {Case{{2, 3, 6, 8}, {3, 2}}, {{2, 3, 7, 5}, {3, 2}}, {{3, 7, 5}, {1, 5}}, {{2, 3, 3, 4}, {6, 7}}}) {
    const at::Tensor x = at::randn(example.x);
    add(out, "aten._adaptive_avg_pool2d", {x}, {ints(example.output)});
    add(out, "aten.adaptive_max_pool2d", {x}, {ints(example.output)});
    auto sizes = example.x;
    std::copy(example.output.begin(), example.output.end(), sizes.end() - 2);
    add(out, "aten._adaptive_avg_pool2d_backward", {at::randn(sizes), x});
  }
  at::Tensor x = at::randn({1, 1, 7, 5});
  x[0][0][3][2] = NAN, x[0][0][6][0] = std::numeric_limits<float>::infinity();
  add(out, "aten._adaptive_avg_pool2d", {x}, {ints({3, 2})});
  add(out, "aten.adaptive_max_pool2d", {x}, {ints({3, 2})});
  x.fill_(NAN);
  add(out, "aten.adaptive_max_pool2d", {x}, {ints({3, 2})});
  add(out, "aten.adaptive_max_pool2d", {at::randn({2, 7, 5}).to(at::kHalf)}, {ints({3, 5})});
  add(out, "aten.adaptive_max_pool3d", {at::randn({2, 5, 6, 4})}, {ints({3, 4, 3})});
  add(out, "aten._adaptive_avg_pool2d", {at::randn({2, 3, 7, 5}).to(at::kBFloat16)}, {ints({3, 5})});
  add(out, "aten._adaptive_avg_pool3d", {at::randn({2, 3, 4, 7, 5})}, {ints({2, 3, 5})});
  add(out, "aten._adaptive_avg_pool3d_backward", {at::randn({2, 3, 2, 3, 5}), at::randn({2, 3, 4, 7, 5})});
  const at::Tensor even = at::randn({2, 3, 6, 8});
  add(out, "aten.adaptive_max_pool2d", {even}, {ints({3, 2})});
  add(out, "aten.adaptive_max_pool2d_backward",
      {at::randn({2, 3, 3, 2}), even, std::get<1>(at::adaptive_max_pool2d(even, {3, 2}))});
  const at::Tensor volume = at::randn({3, 2, 6, 4});
  add(out, "aten.adaptive_max_pool3d_backward",
      {at::randn({3, 1, 3, 2}), volume, std::get<1>(at::adaptive_max_pool3d(volume, {1, 3, 2}))});
  add(out, "aten.adaptive_max_pool3d", {at::randn({3, 2, 6, 4})}, {ints({1, 3, 2})});
}

}  // namespace
}  // namespace pooling_calls

Samples calls_pooling() {
  using namespace pooling_calls;
  Samples out;
  maxima(out);
  elements_at_their_places(out);
  ties_and_nan(out);
  averages(out);
  adaptive(out);
  return out;
}

}  // namespace diptych::test
