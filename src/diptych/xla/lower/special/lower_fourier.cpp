// Discrete Fourier transforms. StableHLO has those of one to three last dimensions, and their inverses with the
// quotient by the number of elements.
#include <algorithm>
#include <cmath>

#include "diptych/xla/hlo/index_positions.h"

namespace diptych::detail {
namespace {

constexpr int64_t kMostDims = 3;

std::vector<int64_t> transformed_dims(const Lowering& node) {
  auto dims = node.integers(1);
  const auto rank = static_cast<int64_t>(node.sizes().size());
  for (int64_t& dim : dims) dim = Lowering::wrap(dim, rank);
  return dims;
}

// Transforms one to three dimensions, which are brought to the end in their order.
Hlo transform_some(HloWriter& writer, FourierKind kind, const Hlo& x, std::span<const int64_t> dims, int64_t last) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < x.dim(); ++i) {
    if (std::find(dims.begin(), dims.end(), i) == dims.end()) order.push_back(i);
  }
  order.insert(order.end(), dims.begin(), dims.end());
  std::vector<int64_t> lengths;
  for (const int64_t dim : dims) lengths.push_back(x.sizes[dim]);
  lengths.back() = last;
  return writer.transpose(writer.fft(kind, writer.transpose(x, order), lengths), inverse_order(order));
}

// Complex transforms of any number of dimensions.
Hlo transform_all(HloWriter& writer, FourierKind kind, Hlo x, std::span<const int64_t> dims) {
  while (!dims.empty()) {
    const auto some = dims.last(std::min<size_t>(dims.size(), kMostDims));
    x = transform_some(writer, kind, x, some, x.sizes[some.back()]);
    dims = dims.first(dims.size() - some.size());
  }
  return x;
}

// What the modes of ATen's fft_norm_mode (0 none, 1 by the root, 2 by n) multiply by, where `divided` tells that the
// quotient by n is in the numbers.
Hlo normalize(const Lowering& node, const Hlo& x, const std::vector<int64_t>& lengths, bool divided) {
  double count = 1;
  for (const int64_t length : lengths) count *= static_cast<double>(length);
  const int64_t mode = node.integer(2);
  const double wanted = mode == 0 ? 1 : mode == 1 ? 1 / std::sqrt(count) : 1 / count;
  if ((divided && mode == 2) || (!divided && mode == 0)) return x;
  HloWriter& writer = node.writer();
  const Hlo factor = writer.constant(divided ? wanted * count : wanted, at::toRealValueType(x.dtype), x.sizes);
  if (!at::isComplexType(x.dtype)) return writer.binary("multiply", x, factor);
  return writer.complex(writer.binary("multiply", writer.complex_part("real", x), factor),
                        writer.binary("multiply", writer.complex_part("imag", x), factor));
}

std::vector<int64_t> lengths_of(const std::vector<int64_t>& sizes, const std::vector<int64_t>& dims) {
  std::vector<int64_t> lengths;
  for (const int64_t dim : dims) lengths.push_back(sizes[dim]);
  return lengths;
}

std::vector<Hlo> complex_to_complex(const Lowering& node) {
  const bool is_forward = node.flag(3);
  const auto dims = transformed_dims(node);
  const Hlo x =
      transform_all(node.writer(), is_forward ? FourierKind::kForward : FourierKind::kInverse, node.tensor(0), dims);
  return {normalize(node, x, lengths_of(x.sizes, dims), !is_forward)};
}

// The last of the dimensions is halved: the numbers that are left out are conjugates of those that are kept.
std::vector<Hlo> real_to_complex(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto dims = transformed_dims(node);
  const Hlo x = node.tensor(0);
  const auto lengths = lengths_of(x.sizes, dims);
  Hlo y = writer.convert(x, node.dtype());
  if (node.flag(3)) {
    y = transform_some(writer, FourierKind::kFromReal, x, std::span(dims).last(1), x.sizes[dims.back()]);
    y = transform_all(writer, FourierKind::kForward, y, std::span(dims).first(dims.size() - 1));
  } else {
    y = transform_all(writer, FourierKind::kForward, y, dims);
  }
  return {normalize(node, y, lengths, false)};
}

std::vector<Hlo> complex_to_real(const Lowering& node) {
  HloWriter& writer = node.writer();
  const auto dims = transformed_dims(node);
  Hlo y = transform_all(writer, FourierKind::kInverse, node.tensor(0), std::span(dims).first(dims.size() - 1));
  y = transform_some(writer, FourierKind::kInverseToReal, y, std::span(dims).last(1), node.integer(3));
  return {normalize(node, y, lengths_of(y.sizes, dims), true)};
}

// An operand without elements is eager's error; one without transformed dimensions is copied.
bool has_dims(const Lowering& node) { return !node.integers(1).empty(); }

constexpr LoweringRow kFourierRows[] = {
    {"aten._fft_c2c", complex_to_complex, has_dims},
    {"aten._fft_r2c", real_to_complex, has_dims},
    {"aten._fft_c2r", complex_to_real, has_dims},
};

}  // namespace

std::span<const LoweringRow> fourier_lowerings() { return kFourierRows; }

}  // namespace diptych::detail
