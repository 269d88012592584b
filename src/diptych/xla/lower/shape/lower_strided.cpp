// Views that HLO has no operation for, read and written by positions in memory: diagonals, windows, any strides.
#include <algorithm>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

// The diagonal of two dimensions of a contiguous tensor, with the other dimensions before it.
StridedElements diagonal_view(const std::vector<int64_t>& sizes, int64_t offset, int64_t first, int64_t second) {
  const auto rank = static_cast<int64_t>(sizes.size());
  first = Lowering::wrap(first, rank), second = Lowering::wrap(second, rank);
  const auto strides = contiguous_strides_of(sizes);
  StridedElements view;
  for (int64_t i = 0; i < rank; ++i) {
    if (i == first || i == second) continue;
    view.sizes.push_back(sizes[i]);
    view.strides.push_back(strides[i]);
  }
  const int64_t rows = sizes[first] + std::min<int64_t>(offset, 0),
                columns = sizes[second] - std::max<int64_t>(offset, 0);
  view.sizes.push_back(std::max<int64_t>(std::min(rows, columns), 0));
  view.strides.push_back(strides[first] + strides[second]);
  view.offset = offset >= 0 ? offset * strides[second] : -offset * strides[first];
  return view;
}

std::vector<Hlo> diagonal(const Lowering& node) {
  const Hlo x = node.tensor(0);
  return {read_strided(node.writer(), x, diagonal_view(x.sizes, node.integer(1), node.integer(2), node.integer(3, 1)))};
}
std::vector<Hlo> diagonal_backward(const Lowering& node) {
  const Hlo gradient = node.tensor(0), zeros = node.writer().constant(0, gradient.dtype, node.sizes());
  const auto view = diagonal_view(zeros.sizes, node.integer(2), node.integer(3), node.integer(4));
  return {write_strided(node.writer(), "", zeros, view, gradient)};
}
std::vector<Hlo> diagonal_scatter(const Lowering& node) {
  const Hlo x = node.tensor(0);
  const auto view = diagonal_view(x.sizes, node.integer(2), node.integer(3), node.integer(4, 1));
  return {write_strided(node.writer(), "", x, view, node.tensor(1))};
}

// Windows of `size` along a dimension, `step` apart, with the places in a window as the last dimension.
StridedElements window_view(std::vector<int64_t> sizes, int64_t dim, int64_t size, int64_t step) {
  if (sizes.empty()) return {{size}, {1}, 0};
  dim = Lowering::wrap(dim, static_cast<int64_t>(sizes.size()));
  StridedElements view{sizes, contiguous_strides_of(sizes), 0};
  view.sizes[dim] = (sizes[dim] - size) / step + 1;
  view.sizes.push_back(size);
  view.strides.push_back(view.strides[dim]);
  view.strides[dim] *= step;
  return view;
}
std::vector<Hlo> unfold(const Lowering& node) {
  const Hlo x = node.tensor(0);
  return {read_strided(node.writer(), x, window_view(x.sizes, node.integer(1), node.integer(2), node.integer(3)))};
}
std::vector<Hlo> unfold_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo gradient = node.converted(0, Lowering::wide(node.dtype()));
  const Hlo zeros = writer.constant(0, gradient.dtype, node.sizes());
  const auto view = window_view(zeros.sizes, node.integer(2), node.integer(3), node.integer(4));
  return {writer.convert(write_strided(writer, "add", zeros, view, gradient), node.dtype())};
}

// Blocks of images, as columns. The operands from `first` on are the kernel, dilation, padding and stride.
struct ColumnPlan {
  std::vector<int64_t> padded, low;  ///< the sizes of the padded images, and their padding
  StridedElements view;
};
ColumnPlan column_plan(const Lowering& node, std::vector<int64_t> images, size_t first) {
  if (images.size() == 3) images.insert(images.begin(), 1);
  const auto kernel = node.integers(first), dilation = node.integers(first + 1);
  const auto padding = node.integers(first + 2), stride = node.integers(first + 3);
  ColumnPlan plan{images, {0, 0, padding[0], padding[1]}, {}};
  for (size_t i : {0, 1}) plan.padded[2 + i] += 2 * padding[i];
  const auto strides = contiguous_strides_of(plan.padded);
  const auto blocks = [&](size_t i) {
    return (plan.padded[2 + i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  };
  plan.view.sizes = {images[0], images[1], kernel[0], kernel[1], blocks(0), blocks(1)};
  plan.view.strides = {strides[0], strides[1], dilation[0] * strides[2], dilation[1], stride[0] * strides[2],
                       stride[1]};
  return plan;
}
std::vector<int64_t> negated(std::vector<int64_t> values) {
  for (int64_t& value : values) value = -value;
  return values;
}
Hlo padded_images(HloWriter& writer, const Hlo& x, const std::vector<int64_t>& low) {
  return writer.pad(x, writer.constant(0, x.dtype), low, low, std::vector<int64_t>(low.size(), 0));
}
std::vector<Hlo> images_to_columns(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const auto plan = column_plan(node, x.sizes, 1);
  const std::vector<int64_t> images{plan.view.sizes[0], plan.view.sizes[1], *(x.sizes.end() - 2), x.sizes.back()};
  const Hlo padded = padded_images(writer, writer.reshape(x, images), plan.low);
  return {writer.reshape(read_strided(writer, padded, plan.view), node.sizes())};
}
std::vector<Hlo> columns_to_images(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto plan = column_plan(node, node.sizes(), 2);
  const Hlo columns = writer.reshape(node.converted(0, Lowering::wide(node.dtype())), plan.view.sizes);
  const Hlo zeros = writer.constant(0, columns.dtype, plan.padded);
  const Hlo images = padded_images(writer, write_strided(writer, "add", zeros, plan.view, columns), negated(plan.low));
  return {writer.convert(writer.reshape(images, node.sizes()), node.dtype())};
}

// A tensor of HLO has no memory of its own, so the operand must lie as HLO numbers its elements.
bool lies_in_order(const TensorMeta& meta) {
  const auto sizes = meta.size_hints(), strides = meta.stride_hints(), contiguous = contiguous_strides_of(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1 && strides[i] != contiguous[i]) return false;
  }
  return true;
}
bool stays_inside(const StridedElements& view, int64_t numel) {
  int64_t last = view.offset;
  for (size_t i = 0; i < view.sizes.size(); ++i) last += (view.sizes[i] - 1) * view.strides[i];
  return last < numel;
}
template <size_t kSizes>
StridedElements view_of(const Lowering& node) {
  return {node.integers(kSizes), node.integers(kSizes + 1), 0};
}
// An offset is counted from the start of the memory, in which the operand itself may begin anywhere.
template <size_t kSizes>
bool is_plain_view(const Lowering& node) {
  const TensorMeta* const meta = operand_meta(node, 0);
  if (meta == nullptr || !meta->is_static() || node.is_given(kSizes + 2)) return false;
  const bool is_constant =
      std::all_of(node.node().operands.begin() + kSizes, node.node().operands.end(),
                  [](const Operand& operand) { return std::holds_alternative<c10::IValue>(operand); });
  return is_constant && lies_in_order(*meta) && stays_inside(view_of<kSizes>(node), meta->numel());
}
std::vector<Hlo> as_strided(const Lowering& node) {
  return {read_strided(node.writer(), node.tensor(0), view_of<1>(node))};
}
std::vector<Hlo> as_strided_scatter(const Lowering& node) {
  return {write_strided(node.writer(), "", node.tensor(0), view_of<2>(node), node.tensor(1))};
}
bool is_plain_scatter(const Lowering& node) { return has_dtype_of_result<1>(node) && is_plain_view<2>(node); }

constexpr LoweringRow kStridedRows[] = {
    {"aten.diagonal", diagonal},
    {"aten.diagonal_copy", diagonal},
    {"aten.diagonal_backward", diagonal_backward},
    {"aten.diagonal_scatter", diagonal_scatter, has_dtype_of_result<1>},
    {"aten.unfold", unfold},
    {"aten.unfold_copy", unfold},
    {"aten.unfold_backward", unfold_backward},
    {"aten.im2col", images_to_columns},
    {"aten.col2im", columns_to_images},
    {"aten.as_strided", as_strided, is_plain_view<1>},
    {"aten.as_strided_copy", as_strided, is_plain_view<1>},
    {"aten.as_strided_scatter", as_strided_scatter, is_plain_scatter},
};

}  // namespace

std::span<const LoweringRow> strided_lowerings() { return kStridedRows; }

}  // namespace diptych::detail
