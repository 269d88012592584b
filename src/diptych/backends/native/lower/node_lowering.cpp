#include "diptych/backends/native/lower/node_lowering.h"

#include <algorithm>

namespace diptych::detail {

void add_dim_terms(IndexMap& map, const std::vector<int32_t>& atoms, const std::vector<int64_t>& extents,
                   int64_t stride) {
  for (size_t i = atoms.size(); i-- > 0;) {
    map.add(dim_term({stride}, atoms[i]));
    stride *= extents[atoms[i]];
  }
}

Term NodeLowering::own(size_t index) const {
  if (has_value(index)) return {builder_, sources_.operand(value(index))};
  return constant(scalar(index), operand_dtype(index));
}

Term NodeLowering::operand(size_t index, at::ScalarType dtype) const {
  const Term term = has_value(index) ? own(index) : constant(scalar(index), dtype);
  return term.to(dtype).to(wide(dtype));
}

Term NodeLowering::exact_operand(size_t index) const {
  if (!has_value(index)) return constant(scalar(index), wide(dtype()));
  const Term term = own(index);
  return meta(index).sizes.empty() && term.is_float() ? term.to(wide(dtype())) : operand(index);
}

DimSet NodeLowering::reduced() const {
  DimSet over;
  for (const int32_t dim : sources_.reduced) over = over | DimSet::of(dim);
  return over;
}

bool NodeLowering::reduces_in_order() const { return std::is_sorted(sources_.reduced.begin(), sources_.reduced.end()); }

int64_t NodeLowering::reduced_count() const {
  int64_t count = 1;
  for (const int32_t dim : sources_.reduced) count *= (*sources_.extents)[dim];
  return count;
}

Term NodeLowering::position(size_t dim) const {
  IndexMap map;
  add_dim_terms(map, sources_.dims(node().outputs[0])[dim], *sources_.extents, 1);
  return {builder_, builder_.index(map)};
}

Term NodeLowering::reduced_position() const {
  IndexMap map;
  add_dim_terms(map, sources_.reduced, *sources_.extents, 1);
  return {builder_, builder_.index(map)};
}

IndexMap NodeLowering::map_at(Value value, const std::vector<ReadPlace>& places) const {
  const auto strides = graph().meta(value).stride_hints();
  const DimAtoms dims = sources_.dims(node().outputs[0]);
  IndexMap map;
  for (size_t i = 0; i < places.size(); ++i) {
    map.add(offset_term({places[i].offset * strides[i]}));
    if (places[i].step != 0) add_dim_terms(map, dims[places[i].dim], *sources_.extents, places[i].step * strides[i]);
  }
  return map;
}

Term NodeLowering::load_at(Value value, const std::vector<ReadPlace>& places) const {
  return {builder_, sources_.load(value, map_at(value, places), {})};
}

Term NodeLowering::load_at(Value value, const std::vector<ReadPlace>& places, const Term& condition,
                           const Term& other) const {
  return {builder_, sources_.load(value, map_at(value, places), LoadMask{condition.value(), other.value()})};
}

Term NodeLowering::load_at(Value value, const std::vector<ReadPlace>& places, size_t dim, const Term& index) const {
  IndexMap map = map_at(value, places);
  map.add(value_term({graph().meta(value).stride_hints()[dim]}, index.value()));
  return {builder_, sources_.load(value, map, {})};
}

}  // namespace diptych::detail
