// Nodes that read their operands at other places: the operands are loads, and what is read where is in their maps.
#include <algorithm>
#include <optional>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

using Places = std::vector<ReadPlace>;
using Condition = std::optional<Term>;

// Each dim of an operand of `rank` dims is read along the same dim of the result.
Places same_places(size_t rank) {
  Places places;
  for (size_t i = 0; i < rank; ++i) places.push_back({0, 1, i});
  return places;
}
// The same where the operand lacks `dim`.
Places places_without(size_t rank, size_t dim) {
  Places places = same_places(rank);
  places.erase(places.begin() + static_cast<std::ptrdiff_t>(dim));
  return places;
}
// Where the operand has a dim that the result lacks, at one position of it.
Places places_at(size_t rank, size_t dim, const SizeExpr& position) {
  Places places = same_places(rank - 1);
  places.insert(places.begin() + static_cast<std::ptrdiff_t>(dim), {position, 0, 0});
  return places;
}

size_t dim_of(const NodeArguments& node, size_t index, size_t rank) {
  return static_cast<size_t>(NodeArguments::wrap(node.integer(index), static_cast<int64_t>(rank)));
}
// Of a dim of dynamic size, the position is one of it: at sizes where it is not, the node's result has other sizes.
SizeExpr wrapped(int64_t position, const SizeExpr& size) { return position < 0 ? size + SizeExpr(position) : position; }
SizeExpr clamped(int64_t position, const SizeExpr& size) {
  const SizeExpr from_front = wrapped(position, size);
  if (!size.is_static()) return from_front;
  return std::clamp<int64_t>(from_front.hint(), 0, size.hint());
}
const SizeExpr& size_of(const TensorMeta& meta, size_t dim) { return meta.sizes[dim]; }

Condition both(const Condition& a, const Condition& b) {
  if (!a || !b) return a ? a : b;
  return *a & *b;
}
// Whether a position along a dim of the result is at least `begin` and below `end`; none if it always is.
Condition is_inside(const NodeLowering& node, size_t dim, const SizeExpr& begin, const SizeExpr& end) {
  const Term position = node.position(dim);
  const SizeExpr room = node.sizes()[dim] - end;
  Condition above, below;
  if (!begin.is_static() || begin.hint() > 0) above = position >= node.size(begin);
  if (!room.is_static() || room.hint() > 0) below = position < node.size(end);
  return both(above, below);
}

Term load_where(const NodeLowering& node, Value value, const Places& places, const Condition& condition,
                const Term& other) {
  return condition ? node.load_at(value, places, *condition, other) : node.load_at(value, places);
}

Terms slice(NodeLowering& node) {
  const size_t rank = node.meta(0).sizes.size(), dim = dim_of(node, 1, rank);
  Places places = same_places(rank);
  places[dim] = {clamped(node.integer(2, 0), size_of(node.meta(0), dim)), node.integer(4, 1), dim};
  return {node.load_at(node.value(0), places)};
}

Terms select(NodeLowering& node) {
  const size_t rank = node.meta(0).sizes.size(), dim = dim_of(node, 1, rank);
  return {node.load_at(node.value(0), places_at(rank, dim, wrapped(node.integer(2), size_of(node.meta(0), dim))))};
}

Terms flip(NodeLowering& node) {
  const size_t rank = node.meta(0).sizes.size();
  Places places = same_places(rank);
  for (const int64_t listed : node.integers(1)) {
    const auto dim = static_cast<size_t>(NodeArguments::wrap(listed, static_cast<int64_t>(rank)));
    if (rank > 0) places[dim] = {size_of(node.meta(0), dim) - SizeExpr(1), -1, dim};
  }
  return {node.load_at(node.value(0), places)};
}

// What leaves at the end comes in at the front.
Terms roll(NodeLowering& node) {
  const size_t rank = node.meta(0).sizes.size();
  const auto dim = static_cast<size_t>(NodeArguments::wrap(node.integers(2)[0], static_cast<int64_t>(rank)));
  const int64_t size = size_of(node.meta(0), dim).hint();
  const int64_t shift = ((node.integers(1)[0] % size) + size) % size;
  Places behind = same_places(rank), front = behind;
  behind[dim].offset = -shift;
  front[dim].offset = size - shift;
  const Term zero = node.constant(0, node.dtype());
  const Term wrapped = load_where(node, node.value(0), front, is_inside(node, dim, 0, shift), zero);
  return {load_where(node, node.value(0), behind, is_inside(node, dim, shift, size), wrapped)};
}
// By a number that is known: it depends on the size.
bool rolls_one_dim(const NodeArguments& node) {
  return node.integers(1).size() == 1 && node.integers(2).size() == 1 && !node.meta(0).sizes.empty() &&
         node.meta(0).is_static();
}

// The list counts from the last dim: what is added before it and after it.
Terms pad(NodeLowering& node) {
  const auto list = node.integers(1);
  const size_t rank = node.meta(0).sizes.size();
  Places places = same_places(rank);
  Condition condition;
  for (size_t i = 0; 2 * i + 1 < list.size(); ++i) {
    const size_t dim = rank - 1 - i;
    places[dim].offset = -list[2 * i];
    condition = both(condition, is_inside(node, dim, list[2 * i], size_of(node.meta(0), dim) + SizeExpr(list[2 * i])));
  }
  return {load_where(node, node.value(0), places, condition, node.constant(node.scalar(2, 0), node.dtype()))};
}

const ValueList& parts_of(const NodeArguments& node) { return std::get<ValueList>(node.node().operands[0]); }

bool joins_made_parts(const NodeLowering& node) {
  const ValueList& parts = parts_of(node);
  return std::any_of(parts.begin(), parts.end(), [&](Value part) { return node.is_made_by_group(part); });
}
// Parts of `size` positions along a dim of the result, of which each element takes one.
Terms join(const NodeLowering& node, size_t dim, const SizeExpr& size) {
  const ValueList& parts = parts_of(node);
  const auto wide = NodeLowering::wide(node.dtype());
  const Term position = node.position(dim);
  Term result = node.own(parts.back()).to(wide);
  for (size_t i = parts.size() - 1; i-- > 0;) {
    const Term end = node.size(size * SizeExpr(static_cast<int64_t>(i) + 1));
    result = (position < end).choose(node.own(parts[i]).to(wide), result);
  }
  return {result};
}

Terms concatenate(NodeLowering& node) {
  const size_t rank = node.result().sizes.size(), dim = dim_of(node, 1, rank);
  if (joins_made_parts(node)) return join(node, dim, size_of(node.graph().meta(parts_of(node)[0]), dim));
  Term result = node.constant(0, node.dtype());
  SizeExpr begin = 0;
  for (const Value part : parts_of(node)) {
    Places places = same_places(rank);
    places[dim].offset = SizeExpr(0) - begin;
    const SizeExpr end = begin + size_of(node.graph().meta(part), dim);
    result = load_where(node, part, places, is_inside(node, dim, begin, end), result);
    begin = end;
  }
  return {result};
}
Terms stack(NodeLowering& node) {
  const size_t rank = node.result().sizes.size(), dim = dim_of(node, 1, rank);
  if (joins_made_parts(node)) return join(node, dim, 1);
  Term result = node.constant(0, node.dtype());
  int64_t position = 0;
  for (const Value part : parts_of(node)) {
    result = load_where(node, part, places_without(rank, dim), is_inside(node, dim, position, position + 1), result);
    ++position;
  }
  return {result};
}
bool has_one_dtype(const NodeArguments& node) {
  if (!std::holds_alternative<ValueList>(node.node().operands[0])) return false;
  const ValueList& parts = parts_of(node);
  return !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](Value part) {
    return part && node.graph().meta(part).dtype == node.dtype();
  });
}

// Writes `source` into part of what `around` is: a slice of step one.
Term with_slice(const NodeLowering& node, Value source, size_t dim, const SizeExpr& begin, const Term& around) {
  Places places = same_places(node.sizes().size());
  places[dim].offset = SizeExpr(0) - begin;
  const SizeExpr end = begin + size_of(node.graph().meta(source), dim);
  return load_where(node, source, places, is_inside(node, dim, begin, end), around);
}
Term with_selection(const NodeLowering& node, Value source, size_t dim, int64_t index, const Term& around) {
  const SizeExpr position = wrapped(index, node.sizes()[dim]);
  return load_where(node, source, places_without(node.sizes().size(), dim),
                    is_inside(node, dim, position, position + SizeExpr(1)), around);
}
Term base_of(const NodeLowering& node) { return node.load_at(node.value(0), same_places(node.sizes().size())); }

Terms slice_gradient(NodeLowering& node) {
  const size_t dim = dim_of(node, 2, node.sizes().size());
  const SizeExpr begin = clamped(node.integer(3, 0), node.sizes()[dim]);
  return {with_slice(node, node.value(0), dim, begin, node.constant(0, node.dtype()))};
}
Terms select_gradient(NodeLowering& node) {
  const size_t dim = dim_of(node, 2, node.sizes().size());
  return {with_selection(node, node.value(0), dim, node.integer(3), node.constant(0, node.dtype()))};
}
Terms slice_scatter(NodeLowering& node) {
  const size_t dim = dim_of(node, 2, node.sizes().size());
  return {with_slice(node, node.value(1), dim, clamped(node.integer(3, 0), node.sizes()[dim]), base_of(node))};
}
Terms select_scatter(NodeLowering& node) {
  const size_t dim = dim_of(node, 2, node.sizes().size());
  return {with_selection(node, node.value(1), dim, node.integer(3), base_of(node))};
}
bool scatters_same_dtype(const NodeArguments& node) { return node.meta(1).dtype == node.dtype(); }
bool scatters_by_step_one(const NodeArguments& node) { return scatters_same_dtype(node) && node.integer(5, 1) == 1; }
bool has_step_one(const NodeArguments& node) { return node.integer(5, 1) == 1; }

// A gated linear unit: the first half along a dim times the sigmoid of the second.
Terms gated(NodeLowering& node) {
  const size_t rank = node.sizes().size(), dim = dim_of(node, 1, rank);
  Places first = same_places(rank), second = first;
  second[dim].offset = node.sizes()[dim];
  const auto loaded = [&](const Places& places) {
    return node.load_at(node.value(0), places).to(NodeLowering::wide(node.dtype()));
  };
  return {loaded(first) * sigmoid(loaded(second))};
}
// Along both halves of the result, what is at the same place of one half.
Term load_for_both(const NodeLowering& node, Value value, size_t dim, const SizeExpr& offset) {
  const SizeExpr &size = node.sizes()[dim], half = size.divided_by(2);
  Places first = same_places(node.sizes().size()), second = first;
  first[dim].offset = offset;
  second[dim].offset = offset - half;
  const Term front = load_where(node, value, first, is_inside(node, dim, 0, half), node.constant(0, node.dtype()));
  return load_where(node, value, second, is_inside(node, dim, half, size), front).to(NodeLowering::wide(node.dtype()));
}
Terms gated_gradient(NodeLowering& node) {
  const size_t dim = dim_of(node, 2, node.sizes().size());
  const SizeExpr half = node.sizes()[dim].divided_by(2);
  const Term g = load_for_both(node, node.value(0), dim, 0), x = load_for_both(node, node.value(1), dim, 0);
  const Term gate = sigmoid(load_for_both(node, node.value(1), dim, half)), passed = gate * g;
  const Term position = node.position(dim);
  return {(position < node.size(half)).choose(passed, (1.0 - gate) * passed * x)};
}

constexpr KernelRow kReadingRows[] = {
    also_complex({"aten.slice.Tensor", place_apart, slice, nullptr, 1U << 3U}),
    also_complex({"aten.select.int", place_apart, select}),
    also_complex({"aten.flip", place_apart, flip}),
    also_complex({"aten.roll", place_apart, roll, rolls_one_dim}),
    also_complex({"aten.constant_pad_nd", place_apart, pad}),
    also_complex({"aten.cat", place_concatenated, concatenate, has_one_dtype}),
    also_complex({"aten.stack", place_stacked, stack, has_one_dtype}),
    {"aten.glu", place_apart, gated, has_float_result},
    {"aten.glu_backward", place_apart, gated_gradient, has_float_result},
    also_complex({"aten.slice_backward", place_apart, slice_gradient, has_step_one, 1U << 1U | 1U << 4U}),
    also_complex({"aten.select_backward", place_apart, select_gradient, nullptr, 1U << 1U}),
    also_complex({"aten.slice_scatter", place_apart, slice_scatter, scatters_by_step_one, 1U << 4U}),
    also_complex({"aten.select_scatter", place_apart, select_scatter, scatters_same_dtype}),
};

}  // namespace

std::span<const KernelRow> reading_rows() { return kReadingRows; }

}  // namespace diptych::detail
