// Convolutions and their gradients. All are StableHLO's one convolution, with other paddings and dilations.
#include "diptych/backends/xla/lowering.h"

namespace diptych::detail {
namespace {

/// What a convolution's operands from `first` on say: stride, padding, dilation, transposed, output_padding, groups.
struct ConvolutionGeometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool is_transposed = false;
  int64_t groups = 1;

  size_t rank() const { return stride.size(); }
  /// The elements that a window of `kernel` elements spans.
  int64_t span(size_t i, int64_t kernel) const { return dilation[i] * (kernel - 1) + 1; }
};

// A list of one entry stands for all dimensions.
std::vector<int64_t> per_spatial_dim(const Lowering& node, size_t operand, size_t rank) {
  auto list = node.integers(operand);
  if (list.size() == 1) list.assign(rank, list[0]);
  return list;
}

ConvolutionGeometry convolution_geometry(const Lowering& node, size_t first, size_t rank) {
  return {per_spatial_dim(node, first, rank),
          per_spatial_dim(node, first + 1, rank),
          per_spatial_dim(node, first + 2, rank),
          per_spatial_dim(node, first + 4, rank),
          node.flag(first + 3),
          node.integer(first + 5, 1)};
}

std::vector<int64_t> spatial_sizes(const std::vector<int64_t>& sizes) { return {sizes.begin() + 2, sizes.end()}; }

// A kernel (out, in / groups, ...) as (in, out / groups, ...), and the other way, with its elements in reverse.
Hlo flipped_kernel(HloWriter& writer, const Hlo& kernel, int64_t groups) {
  const auto spatial = spatial_sizes(kernel.sizes);
  const int64_t outer = kernel.sizes[0] / groups, inner = kernel.sizes[1];
  std::vector<int64_t> grouped{groups, outer, inner}, swapped{groups * inner, outer}, order{0, 2, 1}, dims;
  grouped.insert(grouped.end(), spatial.begin(), spatial.end());
  swapped.insert(swapped.end(), spatial.begin(), spatial.end());
  for (size_t i = 0; i < spatial.size(); ++i) {
    order.push_back(static_cast<int64_t>(i) + 3);
    dims.push_back(static_cast<int64_t>(i) + 2);
  }
  const Hlo transposed = writer.transpose(writer.reshape(kernel, grouped), order);
  return writer.reverse(writer.reshape(transposed, swapped), dims);
}

// The plain convolution with as many positions as `result` says; eager may leave some of the input's end out.
Hlo correlate(HloWriter& writer, const Hlo& x, const Hlo& kernel, const ConvolutionGeometry& geometry,
              const std::vector<int64_t>& result) {
  ConvolutionWindow window{geometry.stride, geometry.dilation, std::vector<int64_t>(geometry.rank(), 1), {}, 0, 1};
  window.feature_groups = geometry.groups;
  for (size_t i = 0; i < geometry.rank(); ++i) {
    const int64_t read = (result[i] - 1) * geometry.stride[i] + geometry.span(i, kernel.sizes[i + 2]);
    window.padding.emplace_back(geometry.padding[i], read - x.sizes[i + 2] - geometry.padding[i]);
  }
  return writer.convolution(x, kernel, window);
}

// The transposed convolution, which is the gradient with respect to the input: `result` are its spatial sizes.
Hlo correlate_back(HloWriter& writer, const Hlo& y, const Hlo& kernel, const ConvolutionGeometry& geometry,
                   const std::vector<int64_t>& result) {
  const std::vector<int64_t> ones(geometry.rank(), 1);
  ConvolutionWindow window{ones, geometry.dilation, geometry.stride, {}, geometry.groups, 1};
  for (size_t i = 0; i < geometry.rank(); ++i) {
    const int64_t reach = geometry.span(i, kernel.sizes[i + 2]) - 1, low = reach - geometry.padding[i];
    const int64_t dilated = (y.sizes[i + 2] - 1) * geometry.stride[i] + 1;
    window.padding.emplace_back(low, result[i] + reach - dilated - low);
  }
  return writer.convolution(y, flipped_kernel(writer, kernel, geometry.groups), window);
}

std::vector<int64_t> swapped_order(size_t rank) {
  std::vector<int64_t> order{1, 0};
  for (size_t i = 2; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  return order;
}

// The gradient with respect to the kernel: the batch is what is summed over, and strides and dilations change places.
Hlo kernel_gradient(HloWriter& writer, const Hlo& x, const Hlo& y, const ConvolutionGeometry& geometry,
                    const std::vector<int64_t>& kernel) {
  const auto order = swapped_order(x.sizes.size());
  ConvolutionWindow window{geometry.dilation, geometry.stride, std::vector<int64_t>(geometry.rank(), 1), {}, 1, 0};
  window.batch_groups = geometry.groups;
  for (size_t i = 0; i < geometry.rank(); ++i) {
    const int64_t read = geometry.span(i, kernel[i]) + (y.sizes[i + 2] - 1) * geometry.stride[i];
    window.padding.emplace_back(geometry.padding[i], read - x.sizes[i + 2] - geometry.padding[i]);
  }
  const Hlo result = writer.convolution(writer.transpose(x, order), writer.transpose(y, order), window);
  return writer.transpose(result, order);
}

std::vector<Hlo> convolution(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto computed = Lowering::wide(node.dtype());
  const Hlo x = node.converted(0, computed), kernel = node.converted(1, computed);
  const auto geometry = convolution_geometry(node, 3, x.sizes.size() - 2);
  const auto spatial = spatial_sizes(node.sizes());
  Hlo result = geometry.is_transposed ? correlate_back(writer, x, kernel, geometry, spatial)
                                      : correlate(writer, x, kernel, geometry, spatial);
  if (node.has_tensor(2)) {
    result = writer.binary("add", result, writer.broadcast(node.converted(2, computed), result.sizes, {1}));
  }
  return {writer.convert(result, node.dtype())};
}

// The sum over all dimensions but the channels.
Hlo bias_gradient(const Lowering& node, const Hlo& gradient) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < gradient.dim(); ++i) dims.push_back(i);
  return node.writer().reduce("add", gradient, node.scalar_of(0, gradient.dtype), dims);
}

std::vector<Hlo> convolution_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto dtype = node.tensor(0).dtype, computed = Lowering::wide(dtype);
  const Hlo gradient = node.converted(0, computed), x = node.converted(1, computed), kernel = node.converted(2, computed);
  const auto geometry = convolution_geometry(node, 4, x.sizes.size() - 2);
  const bool is_transposed = geometry.is_transposed;
  const auto inputs = spatial_sizes(x.sizes), window = spatial_sizes(kernel.sizes);
  std::vector<Hlo> results(3);
  if (node.has_result(0)) {
    results[0] = is_transposed ? correlate(writer, gradient, kernel, geometry, inputs)
                               : correlate_back(writer, gradient, kernel, geometry, inputs);
  }
  if (node.has_result(1)) {
    results[1] = is_transposed ? kernel_gradient(writer, gradient, x, geometry, window)
                               : kernel_gradient(writer, x, gradient, geometry, window);
  }
  if (node.has_result(2)) results[2] = bias_gradient(node, gradient);
  for (Hlo& result : results) {
    if (!result.name.empty()) result = writer.convert(result, dtype);
  }
  return results;
}

// A batch of up to three spatial dimensions, of floating dtypes: a convolution of integers is not worth a rule.
bool is_convolution_of_floats(const Lowering& node) {
  const TensorMeta& x = node.graph().meta(std::get<Value>(node.node().operands[0]));
  return at::isFloatingType(x.dtype) && x.sizes.size() >= 3 && x.sizes.size() <= 5;
}

constexpr LoweringRow kConvolutionRows[] = {
    {"aten.convolution", convolution, is_convolution_of_floats},
    {"aten.convolution_backward", convolution_backward, is_convolution_of_floats},
};

}  // namespace

std::span<const LoweringRow> convolution_lowerings() { return kConvolutionRows; }

}  // namespace diptych::detail
