// Shapes of convolutions and their gradients. The memory format follows the CPU kernels' choice: channels last where the
// input or the weight is, except for float64.
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/squeeze.h>
#include <ATen/ops/unsqueeze.h>

#include <array>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

struct ConvolutionSettings {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// A list of one number stands for that number in every dimension.
std::vector<int64_t> spread(at::IntArrayRef values, int64_t dims) {
  return values.size() == 1 ? std::vector<int64_t>(static_cast<size_t>(dims), values[0]) : values.vec();
}

at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  if (input.scalar_type() == at::kDouble || weight.scalar_type() == at::kDouble) return at::MemoryFormat::Contiguous;
  const auto either = [&](at::MemoryFormat format) {
    return input.suggest_memory_format() == format || weight.suggest_memory_format() == format;
  };
  if (weight.dim() == 4 && either(at::MemoryFormat::ChannelsLast)) return at::MemoryFormat::ChannelsLast;
  if (weight.dim() == 5 && either(at::MemoryFormat::ChannelsLast3d)) return at::MemoryFormat::ChannelsLast3d;
  return at::MemoryFormat::Contiguous;
}

std::vector<int64_t> output_sizes(const at::Tensor& input, const at::Tensor& weight, const ConvolutionSettings& conv) {
  if (!conv.transposed) {
    return at::native::conv_output_size(input.sizes(), weight.sizes(), conv.padding, conv.stride, conv.dilation);
  }
  return at::native::conv_input_size(input.sizes(), weight.sizes(), conv.padding, conv.output_padding, conv.stride,
                                     conv.dilation, conv.groups);
}

ConvolutionSettings settings_of(const at::Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
                                at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                                int64_t groups) {
  const int64_t dims = weight.dim() - 2;
  return {spread(stride, dims),         spread(padding, dims), spread(dilation, dims),
          spread(output_padding, dims), transposed,            groups};
}

void check_convolution(const at::Tensor& input, const at::Tensor& weight, const ConvolutionSettings& conv) {
  TORCH_CHECK(input.dim() == weight.dim(), "Expected ", weight.dim(), "D input to convolution with weight of size ",
              weight.sizes(), ", but got input of size: ", input.sizes());
  const int64_t channels = conv.transposed ? weight.size(0) : weight.size(1) * conv.groups;
  TORCH_CHECK(input.size(1) == channels, "Given groups=", conv.groups, ", weight of size ", weight.sizes(),
              ", expected input", input.sizes(), " to have ", channels, " channels, but got ", input.size(1),
              " channels instead");
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.scalar_type(), ") and weight type (",
              weight.scalar_type(), ") should be the same");
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor&, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  const auto conv = settings_of(weight, stride, padding, dilation, transposed, output_padding, groups);
  check_convolution(input, weight, conv);
  const auto sizes = output_sizes(input, weight, conv);
  for (size_t i = 2; i < sizes.size(); ++i) {
    TORCH_CHECK(sizes[i] >= 0, "Kernel of size ", weight.sizes(), " is larger than the padded input ", input.sizes());
  }
  if (weight.dim() != 3) return meta_empty(sizes, input.scalar_type(), convolution_format(input, weight));
  // The kernel runs a 1-d convolution as a 2-d one of height 1 and drops that dimension again.
  const auto format = convolution_format(input.unsqueeze(2), weight.unsqueeze(2));
  return meta_empty({sizes[0], sizes[1], 1, sizes[2]}, input.scalar_type(), format).squeeze(2);
}

at::Tensor grad_like(const at::Tensor& tensor, at::MemoryFormat format) {
  return meta_empty(tensor.sizes(), tensor.scalar_type(), format);
}

at::Tensor grad_like_1d(const at::Tensor& tensor, at::MemoryFormat format) {
  const auto sizes = tensor.sizes();
  return meta_empty({sizes[0], sizes[1], 1, sizes[2]}, tensor.scalar_type(), format).squeeze(2);
}

ThreeTensors convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                  c10::OptionalArrayRef<int64_t>, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef,
                                  bool transposed, at::IntArrayRef, int64_t groups, std::array<bool, 3> mask) {
  const bool is_1d = weight.dim() == 3;
  const auto format = is_1d ? convolution_format(input.unsqueeze(2), weight.unsqueeze(2))
                            : convolution_format(input, weight);
  const auto like = [&](const at::Tensor& t) { return is_1d ? grad_like_1d(t, format) : grad_like(t, format); };
  at::Tensor grad_bias;
  if (mask[2]) grad_bias = meta_empty({grad.size(1)}, grad.scalar_type());
  return {mask[0] ? like(input) : at::Tensor(), mask[1] ? like(weight) : at::Tensor(), grad_bias};
}

}  // namespace

ShapeRows convolution_shapes() {
  return {
      typed_row<convolution>("aten::convolution"),
      typed_row<convolution_backward>("aten::convolution_backward"),
  };
}

}  // namespace diptych::detail
