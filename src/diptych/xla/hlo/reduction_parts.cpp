#include "diptych/xla/hlo/reduction_parts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace diptych::detail {
namespace {

struct Bounds {
  at::ScalarType dtype;
  int64_t low, high;
};
template <typename Number>
constexpr Bounds bounds_of(at::ScalarType dtype) {
  return {dtype, std::numeric_limits<Number>::lowest(), std::numeric_limits<Number>::max()};
}
constexpr Bounds kIntegerBounds[] = {
    bounds_of<uint8_t>(at::kByte), bounds_of<int8_t>(at::kChar),  bounds_of<int16_t>(at::kShort),
    bounds_of<int32_t>(at::kInt),  bounds_of<int64_t>(at::kLong), bounds_of<bool>(at::kBool),
};

at::Scalar bound_of(at::ScalarType dtype, bool is_highest) {
  for (const Bounds& row : kIntegerBounds) {
    if (row.dtype == dtype) return is_highest ? row.high : row.low;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return is_highest ? kInfinity : -kInfinity;
}

// What stands `distance` before each element along `dim`; `filling` where nothing does.
Hlo shifted_by(HloWriter& writer, const Hlo& x, int64_t dim, int64_t distance, const at::Scalar& filling) {
  std::vector<int64_t> low(x.sizes.size(), 0);
  auto high = low;
  const auto interior = low;
  low[dim] = distance, high[dim] = -distance;
  return writer.pad(x, writer.constant(filling, x.dtype), low, high, interior);
}

}  // namespace

std::vector<int64_t> reduced_dims(const Lowering& node, size_t operand, int64_t rank) {
  auto dims = node.integers(operand);
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& dim : dims) dim = Lowering::wrap(dim, rank);
  if (rank == 0) dims.clear();
  return dims;
}

at::Scalar lowest_of(at::ScalarType dtype) { return bound_of(dtype, false); }
at::Scalar highest_of(at::ScalarType dtype) { return bound_of(dtype, true); }

Hlo sum_over(HloWriter& writer, const Hlo& x, at::IntArrayRef dims) {
  return writer.reduce("add", x, writer.constant(0, x.dtype), dims);
}

Hlo extremum_over(HloWriter& writer, std::string_view operation, const Hlo& x, at::IntArrayRef dims) {
  const at::Scalar initial = operation == "maximum" ? lowest_of(x.dtype) : highest_of(x.dtype);
  return writer.reduce(operation, x, writer.constant(initial, x.dtype), dims);
}

Hlo spread_back(HloWriter& writer, const Hlo& reduced, const Hlo& x, at::IntArrayRef dims) {
  std::vector<int64_t> kept;
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    if (std::find(dims.begin(), dims.end(), dim) == dims.end()) kept.push_back(dim);
  }
  return dims.empty() ? reduced : writer.broadcast(reduced, x.sizes, kept);
}

int64_t count_over(const Hlo& x, at::IntArrayRef dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= x.sizes[dim];
  return count;
}

Hlo constant_like(HloWriter& writer, const at::Scalar& value, const Hlo& like) {
  return writer.constant(value, like.dtype, like.sizes);
}

Hlo where_nan(HloWriter& writer, const Hlo& x) { return writer.compare("NE", x, x); }
Hlo where_nonzero(HloWriter& writer, const Hlo& x) { return writer.compare("NE", x, constant_like(writer, 0, x)); }

Hlo norm_over(HloWriter& writer, const Hlo& magnitudes, double order, at::IntArrayRef dims) {
  if (order == 0) return sum_over(writer, writer.convert(where_nonzero(writer, magnitudes), magnitudes.dtype), dims);
  if (std::isinf(order)) return extremum_over(writer, order > 0 ? "maximum" : "minimum", magnitudes, dims);
  if (order == 1) return sum_over(writer, magnitudes, dims);
  if (order == 2) {
    return writer.unary("sqrt", sum_over(writer, writer.binary("multiply", magnitudes, magnitudes), dims));
  }
  const Hlo powers = writer.binary("power", magnitudes, constant_like(writer, order, magnitudes));
  const Hlo total = sum_over(writer, powers, dims);
  return writer.binary("power", total, constant_like(writer, 1 / order, total));
}

std::vector<Hlo> scan_along(HloWriter& writer, const std::vector<ScanPart>& parts, int64_t dim,
                            const Combine& combine) {
  std::vector<Hlo> here;
  for (const ScanPart& part : parts) here.push_back(part.value);
  if (here[0].dim() == 0) return here;
  for (int64_t distance = 1; distance < here[0].sizes[dim]; distance *= 2) {
    std::vector<Hlo> before;
    for (size_t i = 0; i < parts.size(); ++i) {
      before.push_back(shifted_by(writer, here[i], dim, distance, parts[i].neutral));
    }
    here = combine(writer, before, here);
  }
  return here;
}

Hlo running(HloWriter& writer, std::string_view operation, const Hlo& x, int64_t dim, const at::Scalar& neutral) {
  const auto combine = [=](HloWriter& inner, const std::vector<Hlo>& before, const std::vector<Hlo>& here) {
    return std::vector<Hlo>{inner.binary(operation, before[0], here[0])};
  };
  return scan_along(writer, {{x, neutral}}, dim, combine)[0];
}

}  // namespace diptych::detail
