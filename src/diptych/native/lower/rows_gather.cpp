// Gathers by a tensor of indices.
//
// Note [Indices are checked by a flag]
// Eager raises an error for an index out of range, which a kernel can't. So kernels read at 0 instead, and have one
// more output, whether any index was out of range: whoever runs them then leaves the call to the interpreter, whose
// error is eager's.
//
// A gather from what the group makes can't read it at other places. Where it takes one element along a dim, as the
// loss of a class does, that is a sum of which all other terms are zero.
#include <algorithm>
#include <utility>

#include "diptych/native/lower/row_shapes.h"

namespace diptych::detail {
namespace {

struct Gather {
  Value table, index;
  size_t dim = 0;              ///< of the table, along which indices count
  bool is_elementwise = true;  ///< there is an index for each element of the result; else one for each slice
  bool wraps = false;          ///< negative indices count from the end; else they are out of range
};

size_t table_dim(const NodeArguments& node) {
  return static_cast<size_t>(NodeArguments::wrap(node.integer(1), static_cast<int64_t>(node.meta(0).sizes.size())));
}
Gather elements(const NodeArguments& node) { return {node.value(0), node.value(2), table_dim(node)}; }
Gather slices(const NodeArguments& node) { return {node.value(0), node.value(2), table_dim(node), false}; }
Gather rows(const NodeArguments& node) { return {node.value(0), node.value(1), 0, false}; }
Gather indexed(const NodeArguments& node) {
  const auto& indices = std::get<ValueList>(node.node().operands[1]);
  const auto one = std::find_if(indices.begin(), indices.end(), [](Value value) { return static_cast<bool>(value); });
  return {node.value(0), *one, static_cast<size_t>(one - indices.begin()), false, true};
}

template <Gather (*kParts)(const NodeArguments&)>
bool is_by_integers(const NodeArguments& node) {
  const Gather gather = kParts(node);
  const TensorMeta &table = node.graph().meta(gather.table), &index = node.graph().meta(gather.index);
  const bool has_integers = index.dtype == at::kLong || index.dtype == at::kInt;
  const bool fits = !gather.is_elementwise || table.sizes.size() == index.sizes.size();
  return has_integers && fits && gather.dim < table.sizes.size() && table.dtype == node.dtype();
}
template <Gather (*kParts)(const NodeArguments&), size_t kIndex>
bool has_integers(const NodeArguments& node) {
  return node.has_value(0) && node.has_value(kIndex) && is_by_integers<kParts>(node);
}
bool has_one_index(const NodeArguments& node) {
  if (!node.has_value(0)) return false;
  const auto* indices = std::get_if<ValueList>(&node.node().operands[1]);
  const auto is_given = [](Value value) { return static_cast<bool>(value); };
  return indices != nullptr && std::count_if(indices->begin(), indices->end(), is_given) == 1 &&
         is_by_integers<indexed>(node);
}

// The results run along the table's dims without the one that is counted along, of which the index has one position.
bool place_picked(NodeSpace& node, const Gather& gather) {
  Sizes sizes = node.graph().meta(gather.table).sizes;
  sizes[gather.dim] = 1;
  if (node.sizes() != sizes) return false;
  Dims result;
  node.fit_operand(gather.table, [&](const Dims& dims) {
    result = dims;
    return true;
  });
  node.put_reduced({std::exchange(result[gather.dim], SpaceState::kNoAxis)});
  return node.fit_operand(gather.index, [&](const Dims& dims) { return node.unify(dims, result); }) &&
         node.put_results(result);
}

template <Gather (*kParts)(const NodeArguments&)>
bool place_gathered(NodeSpace& node) {
  const Gather gather = kParts(node);
  if (node.is_inside(gather.table)) return gather.is_elementwise && place_picked(node, gather);
  if (!node.read_apart(gather.table)) return false;
  return node.fit_operand(gather.index, [&](const Dims& dims) {
    Dims result = node.make_dims(node.sizes());
    const size_t first = gather.is_elementwise ? 0 : gather.dim;
    std::copy(dims.begin(), dims.end(), result.begin() + static_cast<std::ptrdiff_t>(first));
    return node.put_results(result);
  });
}

// The index, 0 where it is out of range, which is checked.
Term checked_index(const NodeLowering& node, const Gather& gather) {
  const SizeExpr& size = node.graph().meta(gather.table).sizes[gather.dim];
  Term index = node.own(gather.index).to(at::kLong);
  if (gather.wraps) index = (index < index.like(0)).choose(index + node.size(size), index);
  const Term is_outside = (index < index.like(0)) | (index >= node.size(size));
  node.check(is_outside);
  return is_outside.choose(index.like(0), index);
}

// Each dim of the table is read along one of the result, but for the one that is counted along.
std::vector<ReadPlace> places_of(const NodeLowering& node, const Gather& gather) {
  const size_t rank = node.graph().meta(gather.table).sizes.size();
  // index_select() takes an index without dims as one of one element.
  const size_t result_rank = node.graph().meta(node.node().outputs[0]).sizes.size();
  std::vector<ReadPlace> places;
  for (size_t i = 0; i < rank; ++i) {
    const bool is_behind = !gather.is_elementwise && i > gather.dim;
    places.push_back({0, i == gather.dim ? 0 : 1, is_behind ? i + result_rank - rank : i});
  }
  return places;
}

// What is added is zero but for one element, so the sum has its value.
Term picked(const NodeLowering& node, const Gather& gather) {
  const Term table = node.own(gather.table), index = checked_index(node, gather);
  const auto dtype = table.is_float() ? NodeLowering::wide(table.dtype()) : at::kLong;
  return node.reduced_position().equals(index).choose(table.to(dtype), 0.0).reduce("sum", node.reduced(), dtype);
}

template <Gather (*kParts)(const NodeArguments&)>
Terms gathered(NodeLowering& node) {
  const Gather gather = kParts(node);
  if (node.is_made_by_group(gather.table)) return {picked(node, gather)};
  return {node.load_at(gather.table, places_of(node, gather), gather.dim, checked_index(node, gather))};
}

constexpr KernelRow kGatherRows[] = {
    {"aten.gather", place_gathered<elements>, gathered<elements>, has_integers<elements, 2>, 0, true},
    {"aten.index_select", place_gathered<slices>, gathered<slices>, has_integers<slices, 2>, 0, true},
    {"aten.embedding", place_gathered<rows>, gathered<rows>, has_integers<rows, 1>, 0, true},
    {"aten.index.Tensor", place_gathered<indexed>, gathered<indexed>, has_one_index, 0, true},
};

}  // namespace

std::span<const KernelRow> gather_rows() { return kGatherRows; }

}  // namespace diptych::detail
