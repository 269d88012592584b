// Convolutions and their gradients. Nearly all are StableHLO's one convolution, with other paddings and dilations.
#include "diptych/xla/hlo/lowering.h"

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

// Convolutions with one channel in each group are slow on the plugin: they are sums of products written out, which XLA
// makes one loop of.
constexpr int64_t kLargestDepthwise = 64;
bool is_depthwise(const std::vector<int64_t>& x, const std::vector<int64_t>& kernel, int64_t groups) {
  int64_t window = 1;
  for (const int64_t size : spatial_sizes(kernel)) window *= size;
  return groups > 1 && x[1] == groups && kernel[0] == groups && window <= kLargestDepthwise;
}

// Calls `visit` with each position of a window, the last dimension fastest.
template <typename Visit>
void for_each_offset(const std::vector<int64_t>& window, const Visit& visit) {
  std::vector<int64_t> offsets(window.size(), 0);
  for (size_t i = 0; i < window.size();) {
    visit(offsets);
    for (i = 0; i < window.size() && ++offsets[window.size() - 1 - i] == window[window.size() - 1 - i]; ++i) {
      offsets[window.size() - 1 - i] = 0;
    }
  }
}

// The input as a window with these paddings sees it.
Hlo padded_input(HloWriter& writer, const Hlo& x, const ConvolutionWindow& window) {
  std::vector<int64_t> low{0, 0}, high{0, 0}, interior{0, 0};
  for (size_t i = 0; i < window.stride.size(); ++i) {
    low.push_back(window.padding[i].first);
    high.push_back(window.padding[i].second);
    interior.push_back(window.input_dilation[i] - 1);
  }
  return writer.pad(x, writer.constant(0, x.dtype), low, high, interior);
}

// The elements of a padded input that meet one element of the kernel, for `count` positions.
Hlo met_elements(HloWriter& writer, const Hlo& padded, const std::vector<int64_t>& first,
                 const std::vector<int64_t>& stride, const std::vector<int64_t>& count) {
  std::vector<int64_t> low{0, 0}, high{padded.sizes[0], padded.sizes[1]}, steps{1, 1};
  for (size_t i = 0; i < stride.size(); ++i) {
    low.push_back(first[i]);
    high.push_back(first[i] + (count[i] - 1) * stride[i] + 1);
    steps.push_back(stride[i]);
  }
  return writer.slice(padded, low, high, steps);
}

Hlo depthwise(HloWriter& writer, const Hlo& x, const Hlo& kernel, const ConvolutionWindow& window,
              const std::vector<int64_t>& result) {
  const Hlo padded = padded_input(writer, x, window);
  Hlo sum;
  for_each_offset(spatial_sizes(kernel.sizes), [&](const std::vector<int64_t>& offsets) {
    std::vector<int64_t> first, low{0, 0}, high{kernel.sizes[0], 1};
    for (size_t i = 0; i < offsets.size(); ++i) {
      first.push_back(offsets[i] * window.dilation[i]);
      low.push_back(offsets[i]);
      high.push_back(offsets[i] + 1);
    }
    const Hlo elements = met_elements(writer, padded, first, window.stride, result);
    const Hlo factor = writer.slice(kernel, low, high, std::vector<int64_t>(low.size(), 1));
    const Hlo spread = writer.broadcast(writer.reshape(factor, {kernel.sizes[0]}), elements.sizes, {1});
    const Hlo product = writer.binary("multiply", elements, spread);
    sum = sum.name.empty() ? product : writer.binary("add", sum, product);
  });
  return sum;
}

// The plain convolution with as many positions as `result` says; eager may leave some of the input's end out.
Hlo correlate(HloWriter& writer, const Hlo& x, const Hlo& kernel, const ConvolutionGeometry& geometry,
              const std::vector<int64_t>& result) {
  const std::vector<int64_t> ones(geometry.rank(), 1);
  ConvolutionWindow window{geometry.stride, geometry.dilation, ones, {}, geometry.groups, 1};
  for (size_t i = 0; i < geometry.rank(); ++i) {
    const int64_t read = (result[i] - 1) * geometry.stride[i] + geometry.span(i, kernel.sizes[i + 2]);
    window.padding.emplace_back(geometry.padding[i], read - x.sizes[i + 2] - geometry.padding[i]);
  }
  const bool is_wide = !is_depthwise(x.sizes, kernel.sizes, geometry.groups);
  return is_wide ? writer.convolution(x, kernel, window) : depthwise(writer, x, kernel, window, result);
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
  const Hlo flipped = flipped_kernel(writer, kernel, geometry.groups);
  const bool is_wide = !is_depthwise(y.sizes, flipped.sizes, geometry.groups);
  return is_wide ? writer.convolution(y, flipped, window) : depthwise(writer, y, flipped, window, result);
}

std::vector<int64_t> swapped_order(size_t rank) {
  std::vector<int64_t> order{1, 0};
  for (size_t i = 2; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  return order;
}

// The sum over all dimensions but the channels.
Hlo sum_of_channels(HloWriter& writer, const Hlo& x) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < x.dim(); ++i) dims.push_back(i);
  return writer.reduce("add", x, writer.constant(0, x.dtype), dims);
}

Hlo depthwise_gradient(HloWriter& writer, const Hlo& x, const Hlo& y, const ConvolutionWindow& window,
                       const std::vector<int64_t>& kernel) {
  const Hlo padded = padded_input(writer, x, window);
  std::vector<Hlo> columns;
  for_each_offset(kernel, [&](const std::vector<int64_t>& offsets) {
    std::vector<int64_t> first;
    for (size_t i = 0; i < offsets.size(); ++i) first.push_back(offsets[i] * window.stride[i]);
    const Hlo elements = met_elements(writer, padded, first, window.dilation, spatial_sizes(y.sizes));
    const Hlo sum = sum_of_channels(writer, writer.binary("multiply", elements, y));
    columns.push_back(writer.reshape(sum, {x.sizes[1], 1}));
  });
  std::vector<int64_t> sizes{x.sizes[1], 1};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  return writer.reshape(writer.concatenate(columns, 1), sizes);
}

// The gradient with respect to the kernel: the batch is what is summed over, and strides and dilations change places.
Hlo kernel_gradient(HloWriter& writer, const Hlo& x, const Hlo& y, const ConvolutionGeometry& geometry,
                    const std::vector<int64_t>& kernel) {
  const auto order = swapped_order(x.sizes.size());
  const std::vector<int64_t> ones(geometry.rank(), 1);
  ConvolutionWindow window{geometry.dilation, geometry.stride, ones, {}, 1, geometry.groups};
  for (size_t i = 0; i < geometry.rank(); ++i) {
    const int64_t read = geometry.span(i, kernel[i]) + (y.sizes[i + 2] - 1) * geometry.stride[i];
    window.padding.emplace_back(geometry.padding[i], read - x.sizes[i + 2] - geometry.padding[i]);
  }
  std::vector<int64_t> sizes{y.sizes[1], x.sizes[1] / geometry.groups};
  sizes.insert(sizes.end(), kernel.begin(), kernel.end());
  if (is_depthwise(x.sizes, sizes, geometry.groups)) return depthwise_gradient(writer, x, y, window, kernel);
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

std::vector<Hlo> convolution_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto dtype = node.tensor(0).dtype, computed = Lowering::wide(dtype);
  const Hlo gradient = node.converted(0, computed), x = node.converted(1, computed),
            kernel = node.converted(2, computed);
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
  if (node.has_result(2)) results[2] = sum_of_channels(writer, gradient);
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
