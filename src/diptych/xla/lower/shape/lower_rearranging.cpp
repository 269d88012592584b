// Copies in another order: reversed, rotated, repeated, shuffled; and tensors with zeros around theirs.
#include <algorithm>
#include <numeric>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

std::vector<int64_t> wrapped_dims(const Lowering& node, size_t operand, int64_t rank) {
  auto dims = node.integers(operand);
  for (int64_t& dim : dims) dim = Lowering::wrap(dim, rank);
  return dims;
}

std::vector<Hlo> flip(const Lowering& node) {
  const Hlo x = node.tensor(0);
  return {x.dim() == 0 ? x : node.writer().reverse(x, wrapped_dims(node, 1, x.dim()))};
}

Hlo rolled(HloWriter& writer, const Hlo& x, int64_t dim, int64_t shift) {
  const int64_t size = x.sizes[dim], start = ((-shift % size) + size) % size;
  if (start == 0) return x;
  return writer.concatenate({writer.slice_along(x, dim, start, size), writer.slice_along(x, dim, 0, start)}, dim);
}

// Without dims the elements are shifted as if in one row.
std::vector<Hlo> roll(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.tensor(0);
  const auto shifts = node.integers(1), dims = wrapped_dims(node, 2, x.dim());
  if (x.dim() == 0) return {x};
  if (dims.empty())
    return {writer.reshape(rolled(writer, writer.reshape(x, {elements_of(x.sizes)}), 0, shifts[0]), x.sizes)};
  for (size_t i = 0; i < dims.size(); ++i) x = rolled(writer, x, dims[i], shifts[i]);
  return {x};
}

std::vector<Hlo> rotate(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const int64_t turns = ((node.integer(1) % 4) + 4) % 4;
  const auto dims = wrapped_dims(node, 2, x.dim());
  if (turns == 0) return {x};
  if (turns == 2) return {writer.reverse(x, dims)};
  return {writer.swap_dims(writer.reverse(x, {dims[turns == 1 ? 1 : 0]}), dims[0], dims[1])};
}

std::vector<Hlo> repeat(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const auto repeats = node.integers(1);
  const size_t added = repeats.size() - x.sizes.size();
  std::vector<int64_t> sizes, dims;
  for (size_t i = 0; i < repeats.size(); ++i) {
    sizes.push_back(repeats[i]);
    if (i < added) continue;
    dims.push_back(static_cast<int64_t>(sizes.size()));
    sizes.push_back(x.sizes[i - added]);
  }
  return {writer.reshape(writer.broadcast(x, sizes, dims), node.sizes())};
}

// Splits dimensions as `sizes` says, changes their order, and joins them to the sizes of the result.
std::vector<Hlo> shuffled(const Lowering& node, const std::vector<int64_t>& sizes, const std::vector<int64_t>& order) {
  HloWriter& writer = node.writer();
  return {writer.reshape(writer.transpose(writer.reshape(node.tensor(0), sizes), order), node.sizes())};
}
int64_t images_in(const std::vector<int64_t>& sizes) { return elements_of({sizes.begin(), sizes.end() - 3}); }
std::vector<Hlo> pixel_shuffle(const Lowering& node) {
  const auto sizes = node.tensor(0).sizes;
  const int64_t r = node.integer(1), rank = static_cast<int64_t>(sizes.size());
  return shuffled(node, {images_in(sizes), sizes[rank - 3] / (r * r), r, r, sizes[rank - 2], sizes[rank - 1]},
                  {0, 1, 4, 2, 5, 3});
}
std::vector<Hlo> pixel_unshuffle(const Lowering& node) {
  const auto sizes = node.tensor(0).sizes;
  const int64_t r = node.integer(1), rank = static_cast<int64_t>(sizes.size());
  return shuffled(node, {images_in(sizes), sizes[rank - 3], sizes[rank - 2] / r, r, sizes[rank - 1] / r, r},
                  {0, 1, 3, 5, 2, 4});
}
std::vector<Hlo> channel_shuffle(const Lowering& node) {
  const auto sizes = node.tensor(0).sizes;
  const int64_t groups = node.integer(1), left = elements_of({sizes.begin() + 2, sizes.end()});
  return shuffled(node, {sizes[0], groups, sizes[1] / groups, left}, {0, 2, 1, 3});
}

constexpr char kNotAbove[] = "LE", kNotBelow[] = "GE";
template <const char* kDirection>
std::vector<Hlo> triangle(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const Hlo distance = writer.binary("subtract", matrix_columns(writer, x.sizes), matrix_rows(writer, x.sizes));
  const Hlo is_kept = writer.compare(kDirection, distance, node.filled(node.integer(1), distance));
  return {writer.select(is_kept, x, node.filled(0, x))};
}

// A vector in every row of a matrix, of which the diagonal is kept.
std::vector<Hlo> diag_embed(const Lowering& node) {
  HloWriter& writer = node.writer();
  Hlo x = node.tensor(0);
  const auto result = node.sizes();
  const int64_t rank = x.dim() + 1, offset = node.integer(1), last = x.dim() - 1;
  const int64_t first_dim = Lowering::wrap(node.integer(2, -2), rank),
                second_dim = Lowering::wrap(node.integer(3, -1), rank);
  std::vector<int64_t> low(x.sizes.size(), 0), high(x.sizes.size(), 0), dims(x.sizes.size());
  (offset > 0 ? high : low)[last] = std::abs(offset);
  std::iota(dims.begin(), dims.end(), 0);
  x = writer.pad(x, node.scalar_of(0, x.dtype), low, high, std::vector<int64_t>(x.sizes.size(), 0));
  auto sizes = x.sizes;
  sizes.push_back(sizes.back());
  const Hlo distance = writer.binary("subtract", matrix_columns(writer, sizes), matrix_rows(writer, sizes));
  const Hlo spread = writer.broadcast(x, sizes, dims);
  const Hlo matrix =
      writer.select(writer.compare("EQ", distance, node.filled(offset, distance)), spread, node.filled(0, spread));
  std::vector<int64_t> order(rank);
  for (int64_t i = 0, next = 0; i < rank; ++i) {
    order[i] = i == first_dim ? rank - 2 : i == second_dim ? rank - 1 : next++;
  }
  return {writer.transpose(matrix, order)};
}

// Matrices along the diagonal of a larger one; a vector is one row.
std::vector<Hlo> block_diagonal(const Lowering& node) {
  HloWriter& writer = node.writer();
  const int64_t width = node.sizes()[1];
  std::vector<Hlo> rows;
  int64_t column = 0;
  for (const Hlo& tensor : node.tensors(0)) {
    const Hlo x = writer.convert(at_least_1d(writer, tensor), node.dtype());
    const Hlo matrix = x.dim() == 2 ? x : writer.reshape(x, {1, x.sizes[0]});
    const int64_t after = width - column - matrix.sizes[1];
    rows.push_back(writer.pad(matrix, node.scalar_of(0, x.dtype), {0, column}, {0, after}, {0, 0}));
    column += matrix.sizes[1];
  }
  return {writer.concatenate(rows, 0)};
}

constexpr LoweringRow kRearrangingRows[] = {
    {"aten.flip", flip},
    {"aten.roll", roll},
    {"aten.rot90", rotate},
    {"aten.repeat", repeat},
    {"aten.pixel_shuffle", pixel_shuffle},
    {"aten.pixel_unshuffle", pixel_unshuffle},
    {"aten.channel_shuffle", channel_shuffle},
    {"aten.native_channel_shuffle", channel_shuffle},
    {"aten.tril", triangle<kNotAbove>},
    {"aten.triu", triangle<kNotBelow>},
    {"aten.diag_embed", diag_embed},
    {"aten.block_diag", block_diagonal},
};

}  // namespace

std::span<const LoweringRow> rearranging_lowerings() { return kRearrangingRows; }

}  // namespace diptych::detail
