// Sums at the places that a tensor of indices names: what gathers have for gradients. At each position of the result
// the sum, over all slices, of those whose index is the position; Note [Scattered sums] in scattered_sums.h says what
// becomes of it. Indices are checked as those of gathers are, see Note [Indices are checked by a flag].
#include <algorithm>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

struct Scatter {
  Value base;  ///< what the sums are added to; none where that is zero
  Value index, source;
  size_t dim = 0;               ///< of the result, along which indices count
  bool is_elementwise = false;  ///< there is an index for each element of the source; else one for each slice
  bool wraps = false;           ///< negative indices count from the end
};

size_t counted_dim(const NodeArguments& node) {
  return static_cast<size_t>(NodeArguments::wrap(node.integer(1), static_cast<int64_t>(node.sizes().size())));
}
Scatter added_slices(const NodeArguments& node) {
  return {node.value(0), node.value(2), node.value(3), counted_dim(node)};
}
Scatter added_elements(const NodeArguments& node) {
  return {node.value(0), node.value(2), node.value(3), counted_dim(node), true};
}
Scatter added_rows(const NodeArguments& node) { return {{}, node.value(1), node.value(0)}; }
Scatter added_at_index(const NodeArguments& node) {
  const auto& indices = std::get<ValueList>(node.node().operands[1]);
  const auto one = std::find_if(indices.begin(), indices.end(), [](Value value) { return static_cast<bool>(value); });
  return {node.value(0), *one, node.value(2), static_cast<size_t>(one - indices.begin()), false, true};
}

// How many dims of the source the index runs along.
size_t counted_dims(const NodeArguments& node, const Scatter& scatter) {
  return scatter.is_elementwise ? 1 : node.graph().meta(scatter.index).sizes.size();
}

template <Scatter (*kParts)(const NodeArguments&)>
bool adds_by_integers(const NodeArguments& node) {
  const Scatter scatter = kParts(node);
  const TensorMeta &index = node.graph().meta(scatter.index), &source = node.graph().meta(scatter.source);
  const Sizes& result = node.sizes();
  const bool has_integers = index.dtype == at::kLong || index.dtype == at::kInt;
  const bool is_exact = has_dtype(kRealNumbers, node.dtype()) && source.dtype == node.dtype();
  if (!has_integers || !is_exact || scatter.dim >= result.size()) return false;
  const auto at_dim = result.begin() + static_cast<std::ptrdiff_t>(scatter.dim);
  Sizes expected(result.begin(), at_dim);
  if (scatter.is_elementwise && index.sizes.size() != result.size()) return false;
  const auto& counted = index.sizes;
  expected.insert(
      expected.end(), counted.begin() + static_cast<std::ptrdiff_t>(scatter.is_elementwise ? scatter.dim : 0),
      scatter.is_elementwise ? counted.begin() + static_cast<std::ptrdiff_t>(scatter.dim) + 1 : counted.end());
  expected.insert(expected.end(), at_dim + 1, result.end());
  return source.sizes == expected && (!scatter.is_elementwise || index.sizes == expected);
}
template <Scatter (*kParts)(const NodeArguments&)>
bool has_base(const NodeArguments& node) {
  return node.has_value(0) && node.has_value(2) && node.has_value(3) && adds_by_integers<kParts>(node);
}
bool is_plain_embedding(const NodeArguments& node) {
  return node.has_value(0) && node.has_value(1) && !node.flag(4) && adds_by_integers<added_rows>(node);
}
bool adds_at_one_index(const NodeArguments& node) {
  if (!node.has_value(0) || !node.has_value(2) || !node.flag(3)) return false;
  const auto* indices = std::get_if<ValueList>(&node.node().operands[1]);
  const auto is_given = [](Value value) { return static_cast<bool>(value); };
  return indices != nullptr && std::count_if(indices->begin(), indices->end(), is_given) == 1 &&
         adds_by_integers<added_at_index>(node);
}

template <Scatter (*kParts)(const NodeArguments&)>
bool place_scattered(NodeSpace& node) {
  const Scatter scatter = kParts(node);
  Dims source;
  node.fit_operand(scatter.source, [&](const Dims& dims) {
    source = dims;
    return true;
  });
  const auto begin = source.begin() + static_cast<std::ptrdiff_t>(scatter.dim);
  const auto end = begin + static_cast<std::ptrdiff_t>(counted_dims(node, scatter));
  const Dims counted(begin, end), of_index = scatter.is_elementwise ? source : counted;
  Dims result(source.begin(), begin);
  result.push_back(node.make_dims({node.sizes()[scatter.dim]})[0]);
  result.insert(result.end(), end, source.end());
  node.put_reduced(counted);
  Dims all = result;
  all.insert(all.end(), counted.begin(), counted.end());
  node.keep_apart(all);
  const auto runs_along = [&](Value value, const Dims& along) {
    return node.fit_operand(value, [&](const Dims& dims) { return node.unify(dims, along); });
  };
  return runs_along(scatter.index, of_index) && (!scatter.base || runs_along(scatter.base, result)) &&
         node.put_results(result);
}

// The sum at each position of the result of `source`, which is zero where nothing is to be added.
Term sum_at(const NodeLowering& node, const Scatter& scatter, const Term& index, const Term& source) {
  const Term is_here = node.position(scatter.dim).equals(index);
  return is_here.choose(source, 0.0).reduce("sum", node.reduced(), source.dtype());
}

// The index, 0 where it is out of range, which is checked.
Term checked_place(const NodeLowering& node, const Scatter& scatter) {
  const Term size = node.size(node.sizes()[scatter.dim]), raw = node.own(scatter.index).to(at::kLong);
  const Term index = scatter.wraps ? (raw < 0.0).choose(raw + size, raw) : raw;
  const Term is_outside = (index < 0.0) | (index >= size);
  node.check(is_outside);
  return is_outside.choose(0.0, index);
}

template <Scatter (*kParts)(const NodeArguments&)>
Terms scattered(NodeLowering& node) {
  const Scatter scatter = kParts(node);
  return {node.own(scatter.base) + sum_at(node, scatter, checked_place(node, scatter), node.own(scatter.source))};
}
Terms scaled_and_scattered(NodeLowering& node) {
  const Scatter scatter = added_slices(node);
  const auto alpha = node.scalar(4, 1);
  const Term source = node.own(scatter.source);
  const Term scaled = alpha.equal(1) ? source : source * source.like(alpha);
  return {node.own(scatter.base) + sum_at(node, scatter, checked_place(node, scatter), scaled)};
}
// What is out of range is left out, as in ATen.
Terms embedding_gradient(NodeLowering& node) {
  const Scatter scatter = added_rows(node);
  const Term index = node.own(scatter.index).to(at::kLong), source = node.own(scatter.source);
  const int64_t padding = node.integer(3, -1);
  const Term added = padding < 0 ? source : index.equals(index.like(padding)).choose(0.0, source);
  return {sum_at(node, scatter, index, added)};
}

constexpr KernelRow kScatterRows[] = {
    {"aten.index_add", place_scattered<added_slices>, scaled_and_scattered, has_base<added_slices>, 0, true, true},
    {"aten.scatter_add", place_scattered<added_elements>, scattered<added_elements>, has_base<added_elements>, 0, true,
     true},
    {"aten.index_put", place_scattered<added_at_index>, scattered<added_at_index>, adds_at_one_index, 0, true, true},
    {"aten.embedding_dense_backward", place_scattered<added_rows>, embedding_gradient, is_plain_embedding, 0, false,
     true},
};

}  // namespace

std::span<const KernelRow> scatter_rows() { return kScatterRows; }

}  // namespace diptych::detail
