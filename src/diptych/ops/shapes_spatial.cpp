// Shapes of operators on images and sequences: paddings, patches, grids, distances, CTC.
#include <ATen/ExpandUtils.h>

#include <algorithm>
#include <array>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

at::Tensor contiguous(const at::Tensor& self) { return meta_empty(self.sizes(), self.scalar_type()); }

// Paddings come in pairs, the pair of the last dimension first.
at::Tensor pad(const at::Tensor& self, at::IntArrayRef padding) {
  auto sizes = self.sizes().vec();
  TORCH_CHECK(padding.size() / 2 < sizes.size(), "padding of size ", padding.size(), " does not fit an input of ",
              sizes.size(), " dimensions");
  for (size_t i = 0; i < padding.size() / 2; ++i) {
    int64_t& size = sizes[sizes.size() - 1 - i];
    size += padding[2 * i] + padding[2 * i + 1];
    TORCH_CHECK(size >= 1, "padding ", padding, " leaves nothing of an input of size ", self.sizes());
  }
  return meta_empty(sizes, self.scalar_type(), self.suggest_memory_format());
}

at::Tensor pad_backward(const at::Tensor&, const at::Tensor& self, at::IntArrayRef) {
  return meta_like(self, self.suggest_memory_format());
}

int64_t patches_along(int64_t size, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                      at::IntArrayRef stride, size_t dim) {
  return (size + 2 * padding[dim] - (dilation[dim] * (kernel[dim] - 1) + 1)) / stride[dim] + 1;
}

at::Tensor im2col(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef dilation, at::IntArrayRef padding,
                  at::IntArrayRef stride) {
  const int64_t patches = patches_along(self.size(-2), kernel, dilation, padding, stride, 0) *
                          patches_along(self.size(-1), kernel, dilation, padding, stride, 1);
  std::vector<int64_t> sizes = {self.size(-3) * kernel[0] * kernel[1], patches};
  if (self.dim() == 4) sizes.insert(sizes.begin(), self.size(0));
  return meta_empty(sizes, self.scalar_type());
}

at::Tensor col2im(const at::Tensor& self, at::IntArrayRef output_size, at::IntArrayRef kernel, at::IntArrayRef,
                  at::IntArrayRef, at::IntArrayRef) {
  std::vector<int64_t> sizes = {self.size(-2) / (kernel[0] * kernel[1]), output_size[0], output_size[1]};
  if (self.dim() == 3) sizes.insert(sizes.begin(), self.size(0));
  return meta_empty(sizes, self.scalar_type());
}

// Output sizes: those of the grid, with the channels of the input in front of the space.
at::Tensor grid_sampler(const at::Tensor& input, const at::Tensor& grid, int64_t, int64_t, bool) {
  auto sizes = grid.sizes().vec();
  sizes.pop_back();
  sizes.insert(sizes.begin() + 1, input.size(1));
  return meta_empty(sizes, input.scalar_type());
}

TwoTensors grid_sampler_backward(const at::Tensor&, const at::Tensor& input, const at::Tensor& grid, int64_t, int64_t,
                                 bool, std::array<bool, 2> mask) {
  return {mask[0] ? contiguous(input) : at::Tensor(), contiguous(grid)};
}

at::Tensor cdist_forward(const at::Tensor& a, const at::Tensor& b, double, std::optional<int64_t>) {
  TORCH_CHECK(a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1),
              "X1 and X2 must have the same number of columns. X1: ", a.size(-1), " X2: ", b.size(-1));
  const auto batch = [](const at::Tensor& t) { return t.sizes().slice(0, static_cast<size_t>(t.dim()) - 2); };
  auto sizes = at::infer_size(batch(a), batch(b));
  sizes.push_back(a.size(-2));
  sizes.push_back(b.size(-2));
  return meta_empty(sizes, a.scalar_type());
}

at::Tensor cdist_backward(const at::Tensor&, const at::Tensor& a, const at::Tensor& b, double, const at::Tensor&) {
  const auto batch = [](const at::Tensor& t) { return t.sizes().slice(0, static_cast<size_t>(t.dim()) - 2); };
  auto sizes = at::infer_size(batch(a), batch(b));
  sizes.push_back(a.size(-2));
  sizes.push_back(a.size(-1));
  return meta_empty(sizes, a.scalar_type());
}

at::Tensor pdist_forward(const at::Tensor& self, double) {
  const int64_t points = self.size(0);
  return meta_empty({points <= 1 ? 0 : points * (points - 1) / 2}, self.scalar_type());
}

at::Tensor pdist_backward(const at::Tensor&, const at::Tensor& self, double, const at::Tensor&) {
  return contiguous(self);
}

TwoTensors ctc_loss(const at::Tensor& log_probs, const at::Tensor&, at::IntArrayRef input_lengths,
                    at::IntArrayRef target_lengths, int64_t, bool) {
  const int64_t batch = static_cast<int64_t>(input_lengths.size());
  const int64_t longest = *std::max_element(target_lengths.begin(), target_lengths.end());
  return {meta_empty({batch}, log_probs.scalar_type()),
          meta_empty({batch, log_probs.size(0), 2 * longest + 1}, log_probs.scalar_type())};
}

at::Tensor ctc_loss_backward(const at::Tensor&, const at::Tensor& log_probs, const at::Tensor&, at::IntArrayRef,
                             at::IntArrayRef, const at::Tensor&, const at::Tensor&, int64_t, bool) {
  return contiguous(log_probs);
}

at::Tensor channel_shuffle(const at::Tensor& self, int64_t groups) {
  TORCH_CHECK(groups > 0 && self.size(1) % groups == 0, "Number of channels must be divisible by groups. Got ",
              self.size(1), " channels and ", groups, " groups.");
  return meta_like(self, self.suggest_memory_format());
}

at::Tensor shuffled(const at::Tensor& self, int64_t channels, int64_t height, int64_t width) {
  auto sizes = self.sizes().vec();
  sizes[sizes.size() - 3] = channels;
  sizes[sizes.size() - 2] = height;
  sizes[sizes.size() - 1] = width;
  return meta_empty(sizes, self.scalar_type(), self.suggest_memory_format());
}

at::Tensor pixel_shuffle(const at::Tensor& self, int64_t factor) {
  TORCH_CHECK(self.dim() >= 3 && factor > 0 && self.size(-3) % (factor * factor) == 0,
              "pixel_shuffle expects its input's channels to be divisible by the square of upscale_factor ", factor,
              ", but got an input of size ", self.sizes());
  return shuffled(self, self.size(-3) / (factor * factor), self.size(-2) * factor, self.size(-1) * factor);
}

at::Tensor pixel_unshuffle(const at::Tensor& self, int64_t factor) {
  TORCH_CHECK(self.dim() >= 3 && factor > 0 && self.size(-2) % factor == 0 && self.size(-1) % factor == 0,
              "pixel_unshuffle expects height and width to be divisible by downscale_factor ", factor,
              ", but got an input of size ", self.sizes());
  if (self.numel() == 0) return meta_like(self);  // the kernel clones what is empty
  return shuffled(self, self.size(-3) * factor * factor, self.size(-2) / factor, self.size(-1) / factor);
}

}  // namespace

ShapeRows spatial_shapes() {
  return {
      typed_row<pad>("aten::reflection_pad2d"),
      typed_row<pad>("aten::reflection_pad3d"),
      typed_row<pad>("aten::replication_pad2d"),
      typed_row<pad>("aten::replication_pad3d"),
      typed_row<pad_backward>("aten::reflection_pad2d_backward"),
      typed_row<pad_backward>("aten::reflection_pad3d_backward"),
      typed_row<pad_backward>("aten::replication_pad2d_backward"),
      typed_row<pad_backward>("aten::replication_pad3d_backward"),
      typed_row<im2col>("aten::im2col"),
      typed_row<col2im>("aten::col2im"),
      typed_row<grid_sampler>("aten::grid_sampler_2d"),
      typed_row<grid_sampler>("aten::grid_sampler_3d"),
      typed_row<grid_sampler_backward>("aten::grid_sampler_2d_backward"),
      typed_row<grid_sampler_backward>("aten::grid_sampler_3d_backward"),
      typed_row<cdist_forward>("aten::_cdist_forward"),
      typed_row<cdist_backward>("aten::_cdist_backward"),
      typed_row<pdist_forward>("aten::_pdist_forward"),
      typed_row<pdist_backward>("aten::_pdist_backward"),
      typed_row<ctc_loss>("aten::_ctc_loss"),
      typed_row<ctc_loss_backward>("aten::_ctc_loss_backward"),
      typed_row<channel_shuffle>("aten::channel_shuffle"),
      typed_row<channel_shuffle>("aten::native_channel_shuffle"),
      typed_row<pixel_shuffle>("aten::pixel_shuffle"),
      typed_row<pixel_unshuffle>("aten::pixel_unshuffle"),
  };
}

}  // namespace diptych::detail
