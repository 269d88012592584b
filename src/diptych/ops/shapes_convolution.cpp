// Shapes of convolutions and their gradients. Sizes are arithmetic; the memory format follows the CPU kernels' choice,
// which depends on the layouts of input and weight and, for small weights, on which library takes the convolution.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/_nnpack_available.h>

#include <algorithm>
#include <array>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

struct ConvolutionSettings {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// A list of one number means that number in every dimension.
std::vector<int64_t> spread(at::IntArrayRef values, int64_t dims) {
  return values.size() == 1 ? std::vector<int64_t>(static_cast<size_t>(dims), values[0]) : values.vec();
}

ConvolutionSettings settings_of(const at::Tensor& weight, at::IntArrayRef stride, at::IntArrayRef padding,
                                at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                                int64_t groups) {
  const int64_t dims = weight.dim() - 2;
  return {spread(stride, dims),
          spread(padding, dims),
          spread(dilation, dims),
          spread(output_padding, dims),
          transposed,
          groups};
}

bool any_is_not_one(const std::vector<int64_t>& settings) {
  return std::any_of(settings.begin(), settings.end(), [](int64_t x) { return x != 1; });
}

// ATen's rule for handing a convolution of these tensors to oneDNN instead of running its own kernel.
bool runs_in_onednn(const at::Tensor& input, const at::Tensor& weight, const ConvolutionSettings& conv) {
  if (!at::globalContext().userEnabledMkldnn() || input.scalar_type() == at::kDouble) return false;
  if (input.scalar_type() != at::kFloat) return true;
  const bool pays_off = any_is_not_one(conv.stride) || any_is_not_one(conv.dilation) || input.size(0) >= 16 ||
                        weight.size(-1) != 1 || weight.size(-2) != 1 || at::get_num_threads() > 1;
  const bool is_large = conv.groups > 1 || (weight.size(-1) > 3 && weight.size(-2) > 3) || input.size(0) > 1 ||
                        input.size(0) * input.size(1) * input.size(2) * input.size(3) > 20480;
  return pays_off && is_large;
}

// ATen's rule for handing a convolution that oneDNN does not run to NNPACK, whose results are contiguous.
bool runs_in_nnpack(const at::Tensor& input, const at::Tensor& weight, const ConvolutionSettings& conv) {
  const auto& context = at::globalContext();
  if (runs_in_onednn(input, weight, conv) || !context.userEnabledNNPACK() || !at::_nnpack_available()) return false;
  return input.scalar_type() == at::kFloat && !any_is_not_one(conv.dilation) && !conv.transposed && weight.dim() == 4 &&
         weight.size(2) < 17 && weight.size(3) < 17 && input.size(0) >= 16;
}

// Channels last where either tensor is; of the 3-d kernels oneDNN's alone knows channels last.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight,
                                    const ConvolutionSettings& conv) {
  const auto either = [&](at::MemoryFormat format) {
    return input.suggest_memory_format() == format || weight.suggest_memory_format() == format;
  };
  if (input.numel() == 0 || runs_in_nnpack(input, weight, conv)) return at::MemoryFormat::Contiguous;
  if (weight.dim() == 4 && either(at::MemoryFormat::ChannelsLast)) return at::MemoryFormat::ChannelsLast;
  const bool has_3d = weight.dim() == 5 && runs_in_onednn(input, weight, conv);
  return has_3d && either(at::MemoryFormat::ChannelsLast3d) ? at::MemoryFormat::ChannelsLast3d
                                                            : at::MemoryFormat::Contiguous;
}

std::vector<int64_t> output_sizes(const at::Tensor& input, const at::Tensor& weight, const ConvolutionSettings& conv) {
  if (!conv.transposed) {
    return at::native::conv_output_size(input.sizes(), weight.sizes(), conv.padding, conv.stride, conv.dilation);
  }
  return at::native::conv_input_size(input.sizes(), weight.sizes(), conv.padding, conv.output_padding, conv.stride,
                                     conv.dilation, conv.groups);
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
  if (weight.dim() != 3) return meta_empty(sizes, input.scalar_type(), convolution_format(input, weight, conv));
  // The kernel runs a 1-d convolution of a contiguous input as a 2-d one of height 1 and drops that dimension again.
  const auto format = convolution_format(input.contiguous().unsqueeze(2), weight.unsqueeze(2), conv);
  return meta_empty({sizes[0], sizes[1], 1, sizes[2]}, input.scalar_type(), format).squeeze(2);
}

// ATen's own kernels call weight.contiguous(format), which keeps the strides of a weight that is contiguous already,
// such as 1x1 and depthwise weights, which are contiguous in every format.
at::Tensor grad_weight(const at::Tensor& input, const at::Tensor& weight, const ConvolutionSettings& conv) {
  if (input.numel() == 0) return meta_like(weight);
  const auto format = convolution_format(input, weight, conv);
  const bool keeps_strides = !runs_in_onednn(input, weight, conv) && weight.is_contiguous(format);
  return keeps_strides ? meta_like(weight) : meta_like(weight, format);
}

ThreeTensors convolution_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                  c10::OptionalArrayRef<int64_t>, at::IntArrayRef stride, at::IntArrayRef padding,
                                  at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                                  int64_t groups, std::array<bool, 3> mask) {
  const bool is_1d = weight.dim() == 3;
  const at::Tensor x = is_1d ? input.contiguous().unsqueeze(2) : input;
  const at::Tensor w = is_1d ? weight.unsqueeze(2) : weight;
  const auto conv = settings_of(weight, stride, padding, dilation, transposed, output_padding, groups);
  const auto finish = [&](const at::Tensor& result) { return is_1d ? result.squeeze(2) : result; };
  at::Tensor grad_x, grad_w, grad_bias;
  if (mask[0]) grad_x = finish(x.numel() == 0 ? meta_like(x) : meta_like(x, convolution_format(x, w, conv)));
  if (mask[1]) grad_w = finish(grad_weight(x, w, conv));
  if (mask[2]) grad_bias = meta_empty({grad.size(1)}, grad.scalar_type());
  return {grad_x, grad_w, grad_bias};
}

}  // namespace

ShapeRows convolution_shapes() {
  return {
      typed_row<convolution>("aten::convolution"),
      typed_row<convolution_backward>("aten::convolution_backward"),
  };
}

}  // namespace diptych::detail
