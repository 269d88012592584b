// ResNet-18 for small images, as torch::nn modules with BatchNorm: a 3x3 stem with no pooling, then four stages of two
// blocks. Source: He et al. 2016, in the form that is usual for 32x32 images.
#pragma once
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace examples {

struct ResidualBlockImpl : torch::nn::Module {
  ResidualBlockImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(register_module("conv1", convolution(in, out, 3, stride))),
        norm1(register_module("norm1", torch::nn::BatchNorm2d(out))),
        conv2(register_module("conv2", convolution(out, out, 3, 1))),
        norm2(register_module("norm2", torch::nn::BatchNorm2d(out))) {
    if (in == out && stride == 1) return;
    shortcut = register_module("shortcut",
                               torch::nn::Sequential(convolution(in, out, 1, stride), torch::nn::BatchNorm2d(out)));
  }

  static torch::nn::Conv2d convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = norm2(conv2(at::relu(norm1(conv1(x)))));
    return at::relu(y + (shortcut ? shortcut->forward(x) : x));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::Sequential shortcut{nullptr};
};
TORCH_MODULE(ResidualBlock);

struct ResNet18Impl : torch::nn::Module {
  /// `width` is the number of channels of the first stage: 64 in the paper.
  ResNet18Impl(int64_t channels, int64_t width, int64_t classes)
      : stem(register_module("stem", ResidualBlockImpl::convolution(channels, width, 3, 1))),
        norm(register_module("norm", torch::nn::BatchNorm2d(width))),
        stages(register_module("stages", torch::nn::Sequential())),
        head(register_module("head", torch::nn::Linear(8 * width, classes))) {
    int64_t in = width;
    for (int64_t stage = 0; stage < 4; ++stage) {
      const int64_t out = width << stage;
      stages->push_back(ResidualBlock(in, out, stage == 0 ? 1 : 2));
      stages->push_back(ResidualBlock(out, out, 1));
      in = out;
    }
  }

  /// Shapes: x f32[batch, channels, 32, 32] -> f32[batch, classes].
  at::Tensor forward(const at::Tensor& x) { return head(stages->forward(at::relu(norm(stem(x)))).mean({2, 3})); }

  torch::nn::Conv2d stem;
  torch::nn::BatchNorm2d norm;
  torch::nn::Sequential stages;
  torch::nn::Linear head;
};
TORCH_MODULE(ResNet18);

/// The digits at the size that the network is made for. Shapes: f32[n, 64] -> f32[n, 1, 32, 32].
inline at::Tensor upscaled(const at::Tensor& digits) {
  return at::upsample_bilinear2d(digits.view({-1, 1, 8, 8}), {32, 32}, /*align_corners=*/false);
}

/// Shapes: digits f32[n, 64], labels i64[n] -> f32[].
inline at::Tensor resnet_loss(ResNet18& resnet, const at::Tensor& digits, const at::Tensor& labels) {
  return at::cross_entropy_loss(resnet(upscaled(digits)), labels);
}

}  // namespace examples
