// Views and copies: where elements stand changes, and nothing is computed. unsafe_split is left to the interpreter: its
// results share the operand's memory, though its schema does not say so.
#include <algorithm>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

std::vector<Hlo> reshape(const Lowering& node) { return {node.writer().reshape(node.tensor(0), node.sizes())}; }

std::vector<Hlo> permute(const Lowering& node) {
  const Hlo x = node.tensor(0);
  auto order = node.integers(1);
  for (int64_t& dim : order) dim = Lowering::wrap(dim, x.dim());
  return {node.writer().transpose(x, order)};
}

std::vector<Hlo> swap(const Lowering& node, int64_t a, int64_t b) {
  const Hlo x = node.tensor(0);
  if (x.dim() == 0) return {x};
  return {node.writer().swap_dims(x, Lowering::wrap(a, x.dim()), Lowering::wrap(b, x.dim()))};
}
std::vector<Hlo> transpose(const Lowering& node) { return swap(node, node.integer(1), node.integer(2)); }
std::vector<Hlo> transpose_matrix(const Lowering& node) {
  return node.tensor(0).dim() < 2 ? std::vector<Hlo>{node.tensor(0)} : swap(node, 0, 1);
}

std::vector<Hlo> expand(const Lowering& node) { return {node.writer().broadcast_to(node.tensor(0), node.sizes())}; }

// A bound of a slice as ATen takes it.
int64_t bound(int64_t position, int64_t size) {
  return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
}

std::vector<Hlo> slice(const Lowering& node) {
  const Hlo x = node.tensor(0);
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim()), size = x.sizes[dim];
  const int64_t begin = bound(node.integer(2, 0), size), end = bound(node.integer(3, size), size);
  return {node.writer().slice_along(x, dim, begin, std::max(begin, end), node.integer(4, 1))};
}

std::vector<Hlo> select(const Lowering& node) {
  const Hlo x = node.tensor(0);
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim());
  const int64_t index = node.integer(2) < 0 ? node.integer(2) + x.sizes[dim] : node.integer(2);
  return {node.writer().reshape(node.writer().slice_along(x, dim, index, index + 1), node.sizes())};
}

// Pieces one after another along a dimension, as large as the results.
std::vector<Hlo> pieces(const Lowering& node, int64_t dim) {
  const Hlo x = node.tensor(0);
  std::vector<Hlo> results;
  int64_t begin = 0;
  for (size_t i = 0; i < node.node().outputs.size(); ++i) {
    const int64_t size = node.sizes(i)[dim];
    results.push_back(node.writer().slice_along(x, dim, begin, begin + size));
    begin += size;
  }
  return results;
}
std::vector<Hlo> split(const Lowering& node) {
  return pieces(node, Lowering::wrap(node.integer(2), node.tensor(0).dim()));
}

std::vector<Hlo> unbind(const Lowering& node) {
  const Hlo x = node.tensor(0);
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim());
  std::vector<Hlo> results;
  for (int64_t i = 0; i < x.sizes[dim]; ++i) {
    results.push_back(node.writer().reshape(node.writer().slice_along(x, dim, i, i + 1), node.sizes(i)));
  }
  return results;
}

std::vector<Hlo> converted_parts(const Lowering& node) {
  auto parts = node.tensors(0);
  // cat skips tensors of shape [0], whatever the others' rank.
  std::erase_if(parts,
                [&](const Hlo& part) { return part.sizes == std::vector<int64_t>{0} && node.sizes().size() != 1; });
  for (Hlo& part : parts) part = node.writer().convert(part, node.dtype());
  return parts;
}
std::vector<Hlo> concatenate(const Lowering& node) {
  const auto parts = converted_parts(node);
  if (parts.empty()) return {node.writer().constant(0, node.dtype(), node.sizes())};
  return {node.writer().concatenate(parts, Lowering::wrap(node.integer(1), static_cast<int64_t>(node.sizes().size())))};
}
std::vector<Hlo> stack(const Lowering& node) {
  auto parts = converted_parts(node);
  auto sizes = node.sizes();
  const int64_t dim = Lowering::wrap(node.integer(1), static_cast<int64_t>(sizes.size()));
  sizes[dim] = 1;
  for (Hlo& part : parts) part = node.writer().reshape(part, sizes);
  return {node.writer().concatenate(parts, dim)};
}

// Every tensor in equal chunks, the last of them padded with zeros; chunks of one number are put together.
std::vector<Hlo> concatenate_chunks(const Lowering& node) {
  HloWriter& writer = node.writer();
  auto parts = node.tensors(0);
  const int64_t dim = Lowering::wrap(node.integer(1), parts.at(0).dim()), chunks = node.integer(2);
  for (Hlo& part : parts) {
    const std::vector<int64_t> none(part.sizes.size(), 0);
    auto high = none;
    high[dim] = (chunks - part.sizes[dim] % chunks) % chunks;
    part = writer.pad(part, node.scalar_of(0, part.dtype), none, high, none);
    std::vector<int64_t> sizes(part.sizes.begin(), part.sizes.begin() + dim);
    int64_t rest = part.sizes[dim] / chunks;
    for (int64_t i = dim + 1; i < part.dim(); ++i) rest *= part.sizes[i];
    sizes.push_back(chunks);
    sizes.push_back(rest);
    part = writer.reshape(part, sizes);
  }
  return {writer.concatenate(parts, dim + 1)};
}

// The same bits under another dtype: a narrower one splits the last dimension, a wider one joins it.
std::vector<Hlo> view_bits(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const auto from = static_cast<int64_t>(c10::elementSize(x.dtype)),
             to = static_cast<int64_t>(c10::elementSize(node.dtype()));
  auto sizes = x.sizes;
  if (from > to) sizes.push_back(from / to);
  if (from >= to) return {writer.reshape(writer.bitcast(x, node.dtype(), sizes), node.sizes())};
  sizes.back() /= to / from;
  sizes.push_back(to / from);
  return {writer.bitcast(writer.reshape(x, sizes), node.dtype(), node.sizes())};
}
bool has_plain_bits(const Lowering& node) {
  const TensorMeta* const meta = operand_meta(node, 0);
  const auto is_plain = [](at::ScalarType dtype) { return dtype != at::kBool && !at::isComplexType(dtype); };
  return meta != nullptr && is_plain(meta->dtype) && is_plain(node.dtype());
}

std::vector<Hlo> same_value(const Lowering& node) { return {node.tensor(0)}; }

std::vector<Hlo> narrow_slice(const Lowering& node) {
  const Hlo x = node.tensor(0);
  const int64_t dim = Lowering::wrap(node.integer(1), x.dim()), begin = Lowering::wrap(node.integer(2), x.sizes[dim]);
  return {node.writer().slice_along(x, dim, begin, begin + node.integer(3))};
}

constexpr LoweringRow kShapeRows[] = {
    {"aten.view", reshape},
    {"aten._unsafe_view", reshape},
    {"aten.reshape", reshape},
    {"aten.unsqueeze", reshape},
    {"aten.squeeze", reshape},
    {"aten.squeeze.dim", reshape},
    {"aten.squeeze.dims", reshape},
    {"aten.view_copy", reshape},
    {"aten._reshape_alias", reshape},
    {"aten._reshape_copy", reshape},
    {"aten._reshape_alias_copy", reshape},
    {"aten.squeeze_copy", reshape},
    {"aten.squeeze_copy.dim", reshape},
    {"aten.squeeze_copy.dims", reshape},
    {"aten.unsqueeze_copy", reshape},
    {"aten.view.dtype", view_bits, has_plain_bits},
    {"aten.view_copy.dtype", view_bits, has_plain_bits},
    {"aten.permute", permute},
    {"aten.transpose.int", transpose},
    {"aten.t", transpose_matrix},
    {"aten.expand", expand},
    {"aten.permute_copy", permute},
    {"aten.transpose_copy.int", transpose},
    {"aten.t_copy", transpose_matrix},
    {"aten.expand_copy", expand},
    {"aten.slice.Tensor", slice},
    {"aten.slice_copy.Tensor", slice},
    {"aten.select.int", select},
    {"aten.select_copy.int", select},
    {"aten.narrow_copy", narrow_slice},
    {"aten.split.Tensor", split},
    {"aten.split_with_sizes", split},
    {"aten.split_copy.Tensor", split},
    {"aten.split_with_sizes_copy", split},
    {"aten.unbind.int", unbind},
    {"aten.unbind_copy.int", unbind},
    {"aten.cat", concatenate},
    {"aten._chunk_cat", concatenate_chunks},
    {"aten.stack", stack},
    {"aten._stack", stack},
    {"aten.alias_copy", same_value},
    {"aten.detach_copy", same_value},
    {"aten.lift", same_value},
    {"aten.lift_fresh", same_value},
};

}  // namespace

std::span<const LoweringRow> shape_lowerings() { return kShapeRows; }

}  // namespace diptych::detail
