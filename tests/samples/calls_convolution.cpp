// Convolutions and their gradients, against eager.
#include <ATen/ATen.h>
#include <array>

#include "samples/families.h"

namespace diptych::test {
namespace convolution_calls {
namespace {

struct ConvolutionCase {
  std::vector<int64_t> x, kernel;  ///< sizes
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  std::vector<int64_t> output_padding = {};  ///< not empty: transposed
};

const ConvolutionCase kConvolutionCases[] = {
    {{2, 3, 8}, {4, 3, 3}, {1}, {0}, {1}},
    {{2, 3, 9}, {4, 3, 2}, {2}, {1}, {3}},
    {{2, 3, 7, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 3, 8, 9}, {4, 3, 3, 2}, {2, 3}, {1, 0}, {1, 2}},
    {{1, 3, 16, 16}, {4, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}},
    {{2, 4, 7, 7}, {6, 2, 3, 3}, {2, 2}, {2, 1}, {1, 1}, 2},
    {{2, 4, 6, 7}, {4, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 4},
    {{2, 4, 6, 7}, {8, 1, 3, 3}, {2, 1}, {1, 1}, {1, 2}, 4},
    {{2, 4, 6, 7}, {4, 1, 2, 3}, {2, 3}, {2, 1}, {2, 1}, 4},
    {{2, 3, 6}, {3, 1, 4}, {2}, {1}, {1}, 3},
    {{2, 3, 5, 6}, {4, 3, 1, 1}, {2, 2}, {0, 0}, {1, 1}},
    {{2, 3, 3, 3}, {4, 3, 1, 1}, {1, 1}, {2, 2}, {1, 1}},
    {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 2}, {1, 2, 2}, {1, 0, 1}, {1, 1, 2}},
    {{2, 3, 5}, {3, 4, 3}, {2}, {1}, {1}, 1, {1}},
    {{2, 3, 5, 4}, {3, 4, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, {1, 1}},
    {{2, 4, 5, 4}, {4, 3, 3, 2}, {1, 3}, {0, 2}, {2, 1}, 2, {0, 2}},
    {{2, 4, 5, 4}, {4, 1, 2, 2}, {2, 2}, {0, 0}, {1, 1}, 4, {0, 0}},
    {{2, 4, 5, 4}, {4, 1, 3, 2}, {2, 3}, {1, 0}, {1, 2}, 4, {1, 2}},
    {{2, 3, 4, 4}, {3, 2, 2, 2}, {1, 1}, {0, 0}, {3, 3}, 1, {2, 2}},
    {{1, 2, 3, 3, 3}, {2, 3, 2, 2, 3}, {2, 1, 2}, {0, 1, 1}, {1, 1, 1}, 1, {1, 0, 0}},
};

std::vector<c10::IValue> options_of(const ConvolutionCase& example) {
  const bool is_transposed = !example.output_padding.empty();
  const std::vector<int64_t> none(example.stride.size(), 0);
  return {ints(example.stride),
          ints(example.padding),
          ints(example.dilation),
          c10::IValue(is_transposed),
          ints(is_transposed ? example.output_padding : none),
          c10::IValue(example.groups)};
}

int64_t channels_of(const ConvolutionCase& example) {
  return example.output_padding.empty() ? example.kernel[0] : example.kernel[1] * example.groups;
}

void expect_convolution(Samples& out, const ConvolutionCase& example, at::ScalarType dtype, bool has_bias) {
  const at::Tensor bias = has_bias ? at::randn({channels_of(example)}).to(dtype) : at::Tensor();
  add(out, "aten.convolution", {at::randn(example.x).to(dtype), at::randn(example.kernel).to(dtype), bias},
      options_of(example));
}

void expect_gradients(Samples& out, const ConvolutionCase& example, at::ScalarType dtype, std::array<bool, 3> mask) {
  const at::Tensor x = at::randn(example.x).to(dtype), kernel = at::randn(example.kernel).to(dtype);
  const bool is_transposed = !example.output_padding.empty();
  const at::Tensor y = at::convolution(
      x, kernel, {}, example.stride, example.padding, example.dilation, is_transposed,
      is_transposed ? example.output_padding : std::vector<int64_t>(example.stride.size(), 0), example.groups);
  std::vector<c10::IValue> operands{ints({channels_of(example)})};
  for (auto& option : options_of(example)) operands.push_back(std::move(option));
  operands.emplace_back(c10::IValue(c10::List<bool>({mask[0], mask[1], mask[2]})));
  add(out, "aten.convolution_backward", {at::randn(y.sizes()).to(dtype), x, kernel}, operands);
}

void forward(Samples& out) {
  bool has_bias = false;
  for (const auto& example : kConvolutionCases) expect_convolution(out, example, at::kFloat, has_bias = !has_bias);
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16}) {
    expect_convolution(out, kConvolutionCases[3], dtype, true);
    // Where windows overlap eager's transposed convolution of half types rounds each sum.
    expect_convolution(out, kConvolutionCases[16], dtype, false);
  }
}

void gradients(Samples& out) {
  for (const auto& example : kConvolutionCases) expect_gradients(out, example, at::kDouble, {true, true, true});
  const ConvolutionCase& example = kConvolutionCases[3];
  expect_gradients(out, example, at::kFloat, {true, true, false});
  expect_gradients(out, example, at::kFloat, {false, true, true});
  expect_gradients(out, example, at::kFloat, {true, false, false});
  expect_gradients(out, example, at::kBFloat16, {true, true, true});
  expect_gradients(out, kConvolutionCases[6], at::kFloat, {false, true, false});
}

void batches_of_nothing_and_layouts(Samples& out) {
  expect_convolution(out, {{0, 3, 7, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}}, at::kFloat, true);
  expect_gradients(out, {{0, 3, 7, 8}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}}, at::kFloat, {true, true, true});
  const std::vector<c10::IValue> options = options_of(kConvolutionCases[2]);
  const at::Tensor x = at::randn({2, 3, 7, 8}), kernel = at::randn({4, 3, 3, 3});
  add(out, "aten.convolution", {x.contiguous(at::MemoryFormat::ChannelsLast), kernel, at::randn({4})}, options);
  add(out, "aten.convolution", {x.transpose(2, 3).contiguous().transpose(2, 3), kernel, {}}, options);
  add(out, "aten.convolution", {x.transpose(2, 3), kernel.flip(2), {}},
      {ints({1}), ints({1}), ints({1}), c10::IValue(false), ints({0}), c10::IValue(1)});
}

}  // namespace
}  // namespace convolution_calls

Samples calls_convolution() {
  using namespace convolution_calls;
  Samples out;
  forward(out);
  gradients(out);
  batches_of_nothing_and_layouts(out);
  return out;
}

}  // namespace diptych::test
