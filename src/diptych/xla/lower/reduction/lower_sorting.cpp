// Sorting, and elements by their rank. Where equal elements stand in the order, ATen promises for stable sorts alone;
// here all sorts are stable.
#include <algorithm>

#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

// NaN is larger than all numbers; zeros are equal.
Hlo comes_first(HloWriter& writer, const Hlo& a, const Hlo& b, bool is_descending) {
  const Hlo is_ordered = writer.compare(is_descending ? "GT" : "LT", a, b);
  if (!at::isFloatingType(a.dtype)) return is_ordered;
  const Hlo &nan = is_descending ? a : b, &number = is_descending ? b : a;
  const Hlo is_number = writer.compare("EQ", number, number);
  return writer.binary("or", is_ordered, writer.binary("and", where_nan(writer, nan), is_number));
}

struct Sorted {
  Hlo values, positions;
};
Sorted sorted_along(HloWriter& writer, const Hlo& x, int64_t dim, bool is_descending) {
  const Hlo keys = x.dtype == at::kBool ? writer.convert(x, at::kByte) : x;
  const Hlo positions = writer.iota(at::kLong, x.sizes, dim);
  const auto results = writer.sort({keys, positions}, dim, [=](HloWriter& inner, std::span<const Hlo> arguments) {
    return std::vector<Hlo>{comes_first(inner, arguments[0], arguments[1], is_descending)};
  });
  return {writer.convert(results[0], x.dtype), results[1]};
}

template <size_t kDim, size_t kDescending>
Sorted sort_operand(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  if (x.dim() == 0) return {x, writer.constant(0, at::kLong)};
  return sorted_along(writer, x, Lowering::wrap(node.integer(kDim, -1), x.dim()), node.flag(kDescending));
}
template <size_t kDim, size_t kDescending>
std::vector<Hlo> sort_both(const Lowering& node) {
  auto [values, positions] = sort_operand<kDim, kDescending>(node);
  return {values, positions};
}
template <size_t kDim, size_t kDescending>
std::vector<Hlo> sort_positions(const Lowering& node) {
  return {sort_operand<kDim, kDescending>(node).positions};
}
bool has_order(const Lowering& node) { return !at::isComplexType(operand_meta(node, 0)->dtype); }

// A selection is much faster than a sort, and the plugin has one of singles. The largest of negated numbers are the
// smallest, and NaN, which is larger than all, is given the sign that it has to have.
Sorted selected_singles(HloWriter& writer, const Hlo& x, int64_t count, bool is_largest) {
  constexpr int64_t kNanBits = 0x7FC00000, kNegativeNanBits = -0x400000;
  const Hlo bits = writer.constant(is_largest ? kNanBits : kNegativeNanBits, at::kInt, x.sizes);
  const Hlo nan = writer.bitcast(bits, at::kFloat, x.sizes);
  const Hlo keys = writer.select(where_nan(writer, x), nan, is_largest ? x : writer.unary("negate", x));
  const auto found = writer.top_k(keys, count);
  return {is_largest ? found[0] : writer.unary("negate", found[0]), writer.convert(found[1], at::kLong)};
}
std::vector<Hlo> topk(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  if (x.dim() == 0) return {x, writer.constant(0, at::kLong)};
  const int64_t dim = Lowering::wrap(node.integer(2, -1), x.dim()), count = node.integer(1);
  const bool is_largest = node.flag(3, true);
  if (x.dtype == at::kDouble) {
    const Sorted all = sorted_along(writer, x, dim, is_largest);
    return {writer.slice_along(all.values, dim, 0, count), writer.slice_along(all.positions, dim, 0, count)};
  }
  const auto swapped = [&](const Hlo& of) { return writer.swap_dims(of, dim, x.dim() - 1); };
  const Sorted found = selected_singles(writer, swapped(writer.convert(x, at::kFloat)), count, is_largest);
  return {writer.convert(swapped(found.values), x.dtype), swapped(found.positions)};
}

// The elements of one rank in each row, whose dimension `dim` has size one.
Sorted elements_of_rank(HloWriter& writer, const Sorted& all, int64_t dim, const Hlo& rank) {
  const Hlo coordinates = coordinates_along(writer, rank, dim);
  return {writer.gather_slices(all.values, coordinates), writer.gather_slices(all.positions, coordinates)};
}
std::vector<Hlo> as_reduced(const Lowering& node, const Sorted& found) {
  return {node.writer().reshape(found.values, node.sizes(0)), node.writer().reshape(found.positions, node.sizes(1))};
}

std::vector<Hlo> kth_value(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.tensor(0));
  const int64_t dim = Lowering::wrap(node.integer(2, -1), x.dim()), rank = node.integer(1) - 1;
  const Sorted all = sorted_along(writer, x, dim, false);
  return as_reduced(node, {writer.slice_along(all.values, dim, rank, rank + 1),
                           writer.slice_along(all.positions, dim, rank, rank + 1)});
}

// How many elements of each row are NaN; dimension `dim` has size one.
Hlo count_nan(HloWriter& writer, const Hlo& x, int64_t dim) {
  auto sizes = x.sizes;
  sizes[dim] = 1;
  if (!at::isFloatingType(x.dtype)) return writer.constant(0, at::kLong, sizes);
  return writer.reshape(sum_over(writer, writer.convert(where_nan(writer, x), at::kLong), {dim}), sizes);
}

// The lower of the two middle elements. NaN, which is sorted last, is the median where there is one, or is not counted.
Sorted median_along(HloWriter& writer, const Hlo& x, int64_t dim, bool ignores_nan) {
  const Hlo nan_count = count_nan(writer, x, dim), count = constant_like(writer, x.sizes[dim], nan_count);
  const Hlo numbers = writer.binary("subtract", count, nan_count), zero = constant_like(writer, 0, nan_count);
  const auto middle_of = [&](const Hlo& size) {
    const Hlo last = writer.binary("subtract", size, constant_like(writer, 1, size));
    return writer.binary("divide", writer.binary("maximum", last, zero), constant_like(writer, 2, size));
  };
  const Hlo rank = ignores_nan ? middle_of(numbers)
                               : writer.select(writer.compare("GT", nan_count, zero), numbers, middle_of(count));
  return elements_of_rank(writer, sorted_along(writer, x, dim, false), dim, rank);
}
template <bool kIgnoresNan>
std::vector<Hlo> median(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = node.tensor(0);
  const Hlo row = writer.reshape(x, {elements_of(x.sizes)});
  return {writer.reshape(median_along(writer, row, 0, kIgnoresNan).values, {})};
}
template <bool kIgnoresNan>
std::vector<Hlo> median_of_dim(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.tensor(0));
  return as_reduced(node, median_along(writer, x, Lowering::wrap(node.integer(1), x.dim()), kIgnoresNan));
}
// Whether an element differs from the one before it; the first does.
Hlo where_run_begins(HloWriter& writer, const Hlo& sorted, int64_t dim) {
  const int64_t size = sorted.sizes[dim];
  auto first = sorted.sizes;
  first[dim] = 1;
  const Hlo begin = writer.constant(true, at::kBool, first);
  if (size == 1) return begin;
  const Hlo here = writer.slice_along(sorted, dim, 1, size), before = writer.slice_along(sorted, dim, 0, size - 1);
  return writer.concatenate({begin, writer.compare("NE", here, before)}, dim);
}

// The smallest of the most frequent elements, and its last place: the end of the first run of equal ones that is as
// long as any.
std::vector<Hlo> mode(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.tensor(0));
  const int64_t dim = Lowering::wrap(node.integer(1, -1), x.dim());
  const Sorted all = sorted_along(writer, x, dim, false);
  const Hlo place = writer.iota(at::kLong, x.sizes, dim), zero = constant_like(writer, 0, place);
  const Hlo begin = writer.select(where_run_begins(writer, all.values, dim), place, zero);
  const Hlo length = writer.binary("subtract", place, running(writer, "maximum", begin, dim, 0));
  const Hlo longest = spread_back(writer, extremum_over(writer, "maximum", length, {dim}), length, {dim});
  const Hlo last = constant_like(writer, x.sizes[dim], place);
  const Hlo found = writer.select(writer.compare("EQ", length, longest), place, last);
  auto sizes = x.sizes;
  sizes[dim] = 1;
  const Hlo rank = writer.reshape(extremum_over(writer, "minimum", found, {dim}), sizes);
  return as_reduced(node, elements_of_rank(writer, all, dim, rank));
}

bool has_sortable_elements(const Lowering& node) {
  const auto sizes = operand_meta(node, 0)->size_hints();
  return std::count(sizes.begin(), sizes.end(), 0) == 0 && has_order(node);
}

// Whose position eager's selection returns among equal elements, which whole numbers have many of, is up to it.
bool has_rare_ties(const Lowering& node) { return has_sortable_elements(node) && at::isFloatingType(node.dtype()); }
// Eager leaves the elements in the order in which its selection ends, unless it is asked to sort them.
bool is_sorted_topk(const Lowering& node) { return node.flag(4, true) && at::isFloatingType(node.dtype()); }
// Eager's sort keeps the order of equal elements in short rows only, and a mode is made of equal elements.
bool has_short_rows(const Lowering& node) {
  const auto sizes = operand_meta(node, 0)->size_hints();
  const auto rank = static_cast<int64_t>(sizes.size());
  return has_sortable_elements(node) && (rank == 0 || sizes[Lowering::wrap(node.integer(1, -1), rank)] <= 16);
}

constexpr LoweringRow kSortingRows[] = {
    {"aten.sort", sort_both<1, 2>, has_order},
    {"aten.sort.stable", sort_both<2, 3>, has_order},
    {"aten.argsort", sort_positions<1, 2>, has_order},
    {"aten.argsort.stable", sort_positions<2, 3>, has_order},
    {"aten.topk", topk, is_sorted_topk},
    {"aten.kthvalue", kth_value, has_rare_ties},
    {"aten.mode", mode, has_short_rows},
    {"aten.median", median<false>, has_sortable_elements},
    {"aten.median.dim", median_of_dim<false>, has_rare_ties},
    {"aten.nanmedian", median<true>, has_sortable_elements},
    {"aten.nanmedian.dim", median_of_dim<true>, has_rare_ties},
};

}  // namespace

std::span<const LoweringRow> sorting_lowerings() { return kSortingRows; }

}  // namespace diptych::detail
