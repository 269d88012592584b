// Elements and rows written by position. An index outside is eager's error; here what it would write is left out. Where
// an element is written twice and nothing is summed, eager promises neither of the values, and neither does XLA.
#include <algorithm>
#include <limits>

#include "diptych/xla/hlo/index_positions.h"
#include "diptych/xla/hlo/reduction_parts.h"

namespace diptych::detail {
namespace {

// A scatter while it is written: the operand and the coordinates, both with at least one dimension.
struct Scatter {
  Hlo x, coordinates;
  std::vector<int64_t> sizes;  ///< of the updates
};
// Half types are widened, so that sums of many round once.
Scatter scatter_of(const Lowering& node, at::ScalarType dtype) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.converted(0, dtype)), index = at_least_1d(writer, node.tensor(2));
  return {x, coordinates_along(writer, index, Lowering::wrap(node.integer(1), x.dim())), index.sizes};
}

// The source may be larger than the index; what lies beyond is not read.
Hlo scatter_source(const Lowering& node, const Scatter& scatter) {
  HloWriter& writer = node.writer();
  const Hlo source = at_least_1d(writer, node.converted(3, scatter.x.dtype));
  return writer.slice(source, std::vector<int64_t>(scatter.sizes.size(), 0), scatter.sizes,
                      std::vector<int64_t>(scatter.sizes.size(), 1));
}

Hlo apply_scatter(const Lowering& node, std::string_view operation, const Scatter& scatter, const Hlo& updates) {
  return elements_of(scatter.sizes) == 0
             ? scatter.x
             : node.writer().scatter_slices(operation, scatter.x, scatter.coordinates, updates);
}
std::vector<Hlo> finish_scatter(const Lowering& node, const Hlo& result) {
  return {node.writer().convert(node.writer().reshape(result, node.sizes()), node.dtype())};
}

std::vector<Hlo> scatter_source_at(const Lowering& node) {
  const Scatter scatter = scatter_of(node, node.dtype());
  return finish_scatter(node, apply_scatter(node, "", scatter, scatter_source(node, scatter)));
}
std::vector<Hlo> scatter_number_at(const Lowering& node) {
  const Scatter scatter = scatter_of(node, node.dtype());
  return finish_scatter(
      node, apply_scatter(node, "", scatter, node.writer().constant(node.scalar(3), node.dtype(), scatter.sizes)));
}
std::vector<Hlo> scatter_sum(const Lowering& node) {
  const Scatter scatter = scatter_of(node, Lowering::wide(node.dtype()));
  return finish_scatter(node, apply_scatter(node, "add", scatter, scatter_source(node, scatter)));
}

std::string_view operation_named(const std::string& name) { return name == "add" ? "add" : "multiply"; }
std::vector<Hlo> scatter_combined(const Lowering& node) {
  const Scatter scatter = scatter_of(node, Lowering::wide(node.dtype()));
  return finish_scatter(node,
                        apply_scatter(node, operation_named(node.text(4)), scatter, scatter_source(node, scatter)));
}
std::vector<Hlo> scatter_number_combined(const Lowering& node) {
  const Scatter scatter = scatter_of(node, Lowering::wide(node.dtype()));
  const Hlo updates = node.writer().constant(node.scalar(3), scatter.x.dtype, scatter.sizes);
  return finish_scatter(node, apply_scatter(node, operation_named(node.text(4)), scatter, updates));
}
bool adds_numbers(const Lowering& node) { return node.dtype() != at::kBool; }

at::Scalar zero_of(at::ScalarType) { return 0; }
at::Scalar one_of(at::ScalarType) { return 1; }
struct ScatterReduction {
  std::string_view name, operation;
  at::Scalar (*initial)(at::ScalarType dtype);
};
constexpr ScatterReduction kScatterReductions[] = {
    {"sum", "add", zero_of},        {"prod", "multiply", one_of},    {"mean", "add", zero_of},
    {"amax", "maximum", lowest_of}, {"amin", "minimum", highest_of},
};
const ScatterReduction& scatter_reduction_named(const std::string& name) {
  return *std::find_if(std::begin(kScatterReductions), std::end(kScatterReductions) - 1,
                       [&](const auto& row) { return row.name == name; });
}

// Whole numbers are rounded down; no element counts as one.
Hlo mean_of_sums(const Lowering& node, const Hlo& sums, const Hlo& counts) {
  HloWriter& writer = node.writer();
  const Hlo divisor = writer.binary("maximum", counts, node.filled(1, counts));
  const Hlo quotient = writer.binary("divide", sums, divisor);
  if (at::isFloatingType(sums.dtype)) return quotient;
  const Hlo zero = node.filled(0, sums), rest = writer.binary("remainder", sums, divisor);
  const Hlo is_lower = writer.compare("LT", rest, zero);
  return writer.select(is_lower, writer.binary("subtract", quotient, node.filled(1, quotient)), quotient);
}

bool is_extremum(const ScatterReduction& reduction) { return reduction.name == "amax" || reduction.name == "amin"; }

// XLA's scatters take the maximum of a number and NaN for the number, so NaN is followed apart.
Hlo with_scattered_nan(const Lowering& node, const Scatter& scatter, const Hlo& source, const Hlo& result) {
  HloWriter& writer = node.writer();
  const auto is_nan = [&](const Hlo& x) { return writer.convert(writer.compare("NE", x, x), at::kInt); };
  const Scatter flags{is_nan(scatter.x), scatter.coordinates, scatter.sizes};
  const Hlo found = apply_scatter(node, "maximum", flags, is_nan(source));
  const Hlo nan = node.filled(std::numeric_limits<double>::quiet_NaN(), result);
  return writer.select(writer.compare("NE", found, node.filled(0, found)), nan, result);
}

// Without the operand's own elements, those that are written start from what does not change the result.
std::vector<Hlo> scatter_reduce(const Lowering& node) {
  HloWriter& writer = node.writer();
  Scatter scatter = scatter_of(node, Lowering::wide(node.dtype()));
  if (elements_of(scatter.sizes) == 0) return finish_scatter(node, scatter.x);
  const ScatterReduction& reduction = scatter_reduction_named(node.text(4));
  const bool includes_self = node.flag(5, true);
  const auto dtype = scatter.x.dtype;
  const auto numbers = [&](const at::Scalar& number) { return writer.constant(number, dtype, scatter.sizes); };
  if (!includes_self) scatter.x = apply_scatter(node, "", scatter, numbers(reduction.initial(dtype)));
  const Hlo source = scatter_source(node, scatter);
  Hlo result = apply_scatter(node, reduction.operation, scatter, source);
  if (is_extremum(reduction) && at::isFloatingType(dtype)) result = with_scattered_nan(node, scatter, source, result);
  if (reduction.name == "mean") {
    const Scatter counted{node.filled(includes_self ? 1 : 0, result), scatter.coordinates, scatter.sizes};
    result = mean_of_sums(node, result, apply_scatter(node, "add", counted, numbers(1)));
  }
  return finish_scatter(node, result);
}
bool has_plain_reduction(const Lowering& node) {
  return at::isFloatingType(node.dtype()) || at::isIntegralType(node.dtype(), false);
}

// Rows: indices of one dimension, and updates whose dimension `dim` they number.
struct Rows {
  Hlo x, index;
  int64_t dim = 0;
};
Rows rows_of(const Lowering& node, at::ScalarType dtype) {
  HloWriter& writer = node.writer();
  const Hlo x = at_least_1d(writer, node.converted(0, dtype));
  return {x, at_least_1d(writer, node.tensor(2)), Lowering::wrap(node.integer(1), x.dim())};
}
std::vector<Hlo> write_rows(const Lowering& node, std::string_view operation, const Rows& rows, const Hlo& updates) {
  if (elements_of(rows.index.sizes) == 0) return finish_scatter(node, rows.x);
  auto sizes = rows.x.sizes;
  sizes[rows.dim] = rows.index.sizes[0];
  HloWriter& writer = node.writer();
  const Hlo shaped = updates.dim() == 0 && elements_of(sizes) != 1 ? writer.broadcast_to(updates, sizes)
                                                                   : writer.reshape(updates, sizes);
  return finish_scatter(node, writer.scatter_along(operation, rows.x, rows.dim, rows.index, shaped));
}
std::vector<Hlo> index_add(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Rows rows = rows_of(node, Lowering::wide(node.dtype()));
  Hlo source = node.converted(3, rows.x.dtype);
  if (!node.scalar(4, 1).equal(1)) source = writer.binary("multiply", source, node.filled(node.scalar(4), source));
  return write_rows(node, "add", rows, source);
}
std::vector<Hlo> index_copy(const Lowering& node) {
  return write_rows(node, "", rows_of(node, node.dtype()), node.tensor(3));
}

// As scatter_reduce, by rows.
std::vector<Hlo> index_reduce(const Lowering& node) {
  HloWriter& writer = node.writer();
  const Rows rows = rows_of(node, Lowering::wide(node.dtype()));
  if (elements_of(rows.index.sizes) == 0) return finish_scatter(node, rows.x);
  auto sizes = rows.x.sizes;
  sizes[rows.dim] = rows.index.sizes[0];
  const Hlo source = writer.reshape(node.converted(3, rows.x.dtype), sizes);
  const ScatterReduction& reduction = scatter_reduction_named(node.text(4));
  const auto combine = [&](std::string_view operation, const Hlo& x, const Hlo& updates) {
    return writer.scatter_along(operation, x, rows.dim, rows.index, updates);
  };
  const auto numbers = [&](const at::Scalar& number) { return node.filled(number, source); };
  const bool includes_self = node.flag(5, true);
  const Hlo x = includes_self ? rows.x : combine("", rows.x, numbers(reduction.initial(source.dtype)));
  Hlo result = combine(reduction.operation, x, source);
  if (is_extremum(reduction) && at::isFloatingType(source.dtype)) {
    const auto is_nan = [&](const Hlo& of) { return writer.convert(writer.compare("NE", of, of), at::kInt); };
    const Hlo found = combine("maximum", is_nan(x), is_nan(source));
    const Hlo nan = node.filled(std::numeric_limits<double>::quiet_NaN(), result);
    result = writer.select(writer.compare("NE", found, node.filled(0, found)), nan, result);
  } else if (reduction.name == "mean") {
    result = mean_of_sums(node, result, combine("add", node.filled(includes_self ? 1 : 0, result), numbers(1)));
  }
  return finish_scatter(node, result);
}
std::vector<Hlo> index_fill(const Lowering& node) {
  Rows rows = rows_of(node, node.dtype());
  rows.index = wrap_indices(node.writer(), rows.index, rows.x.sizes[rows.dim]);
  const Hlo value = node.has_tensor(3) ? node.converted(3, node.dtype()) : node.scalar_of(node.scalar(3), node.dtype());
  return write_rows(node, "", rows, value);
}

std::vector<Hlo> put_flat(const Lowering& node) {
  HloWriter& writer = node.writer();
  const bool sums = node.flag(3);
  const Hlo x = node.converted(0, sums ? Lowering::wide(node.dtype()) : node.dtype());
  const int64_t count = elements_of(x.sizes), updated = elements_of(node.tensor(1).sizes);
  if (updated == 0) return {node.tensor(0)};
  const Hlo index = writer.reshape(wrap_indices(writer, node.tensor(1), count), {updated});
  const Hlo source = writer.reshape(node.converted(2, x.dtype), {updated});
  return finish_scatter(node, writer.scatter_along(sums ? "add" : "", writer.reshape(x, {count}), 0, index, source));
}

// The rows at padding_idx get no gradient: a position outside is skipped.
std::vector<Hlo> embedding_dense_backward(const Lowering& node) {
  HloWriter& writer = node.writer();
  const int64_t rows = node.sizes()[0], width = node.sizes()[1], count = elements_of(node.tensor(1).sizes);
  Hlo gradient = writer.reshape(node.converted(0, Lowering::wide(node.dtype())), {count, width});
  const Hlo zeros = writer.constant(0, gradient.dtype, {rows, width});
  if (count == 0) return finish_scatter(node, zeros);
  Hlo index = writer.reshape(node.tensor(1), {count});
  if (node.flag(4)) {
    const Hlo none = writer.constant(0, gradient.dtype, {rows}), ones = writer.constant(1, gradient.dtype, {count});
    const Hlo uses = writer.take(writer.scatter_along("add", none, 0, index, ones), index, 0);
    gradient = writer.binary("divide", gradient, writer.broadcast(uses, gradient.sizes, {0}));
  }
  if (node.integer(3, -1) >= 0) {
    const Hlo is_padding = writer.compare("EQ", index, node.filled(node.integer(3), index));
    index = writer.select(is_padding, node.filled(-1, index), index);
  }
  return finish_scatter(node, writer.scatter_along("add", zeros, 0, index, gradient));
}

constexpr LoweringRow kScatterRows[] = {
    {"aten.scatter.src", scatter_source_at},
    {"aten.scatter.value", scatter_number_at},
    {"aten.scatter.reduce", scatter_combined, adds_numbers},
    {"aten.scatter.value_reduce", scatter_number_combined, adds_numbers},
    {"aten.scatter_add", scatter_sum, adds_numbers},
    {"aten.scatter_reduce.two", scatter_reduce, has_plain_reduction},
    {"aten.index_add", index_add, adds_numbers},
    {"aten.index_copy", index_copy},
    {"aten.index_reduce", index_reduce, has_plain_reduction},
    {"aten.index_fill.int_Scalar", index_fill},
    {"aten.index_fill.int_Tensor", index_fill},
    {"aten.put", put_flat, adds_numbers},
    {"aten.embedding_dense_backward", embedding_dense_backward},
};

}  // namespace

std::span<const LoweringRow> scatter_lowerings() { return kScatterRows; }

}  // namespace diptych::detail
