#include "diptych/native/lower/node_lowering.h"

#include <algorithm>
#include <array>

namespace diptych::detail {
namespace {

// In the order of SizeNumber::Form.
constexpr std::array<Term (*)(const Term&), 4> kForms = {
    [](const Term& quotient) { return quotient; },
    [](const Term& quotient) { return sqrt(quotient); },
    [](const Term& quotient) { return 1.0 / sqrt(quotient); },
    [](const Term& quotient) { return log(quotient); },
};

}  // namespace

void add_dim_terms(IndexMap& map, SizeTable& sizes, const std::vector<int32_t>& atoms, const Sizes& extents,
                   SizeExpr stride) {
  for (size_t i = atoms.size(); i-- > 0;) {
    map.add(dim_term(sizes.term(stride), atoms[i]));
    if (i > 0) stride = stride * extents[atoms[i]];
  }
}

Term NodeLowering::own(size_t index) const {
  if (has_value(index)) return {builder_, sources_.operand(value(index))};
  return number_term(index, operand_dtype(index));
}

Term NodeLowering::size(const SizeExpr& size) const {
  if (size.is_static()) return constant(size.hint(), at::kLong);
  return {builder_, builder_.index(IndexMap().add(offset_term(sources_.sizes->term(size))))};
}

// A number among the operands: one that the graph knows, or one that follows from sizes, as SizeNumber computes it.
Term NodeLowering::number_term(size_t index, at::ScalarType dtype) const {
  const Operand& operand = node().operands[index];
  if (const auto* of_sizes = std::get_if<SizeExpr>(&operand)) return size(*of_sizes).to(dtype);
  const auto* of_quotient = std::get_if<SizeNumber>(&operand);
  if (of_quotient == nullptr) return constant(scalar(index), dtype);
  const Term quotient = size(of_quotient->top).to(at::kDouble) / size(of_quotient->bottom).to(at::kDouble);
  return kForms[static_cast<size_t>(of_quotient->form)](quotient).to(dtype);
}

Term NodeLowering::operand(size_t index, at::ScalarType dtype) const {
  const Term term = has_value(index) ? own(index) : number_term(index, dtype);
  return term.to(dtype).to(wide(dtype));
}

Term NodeLowering::exact_operand(size_t index) const {
  if (!has_value(index)) return number_term(index, wide(dtype()));
  const Term term = own(index);
  return meta(index).sizes.empty() && term.is_float() ? term.to(wide(dtype())) : operand(index);
}

DimSet NodeLowering::reduced() const {
  DimSet over;
  for (const int32_t dim : sources_.reduced) over = over | DimSet::of(dim);
  return over;
}

bool NodeLowering::reduces_in_order() const { return std::is_sorted(sources_.reduced.begin(), sources_.reduced.end()); }

Term NodeLowering::reduced_count(at::ScalarType dtype) const {
  SizeExpr count = 1;
  for (const int32_t dim : sources_.reduced) count = count * (*sources_.extents)[dim];
  return count.is_static() ? constant(static_cast<double>(count.hint()), dtype) : size(count).to(dtype);
}

bool NodeLowering::reduces_one() const {
  return std::all_of(sources_.reduced.begin(), sources_.reduced.end(), [&](int32_t dim) {
    const SizeExpr& extent = (*sources_.extents)[dim];
    return extent.is_static() && extent.hint() == 1;
  });
}

Term NodeLowering::position(size_t dim) const {
  IndexMap map;
  add_dim_terms(map, *sources_.sizes, sources_.dims(node().outputs[0])[dim], *sources_.extents, 1);
  return {builder_, builder_.index(map)};
}

Term NodeLowering::reduced_position() const {
  IndexMap map;
  add_dim_terms(map, *sources_.sizes, sources_.reduced, *sources_.extents, 1);
  return {builder_, builder_.index(map)};
}

IndexMap NodeLowering::map_at(Value value, const std::vector<ReadPlace>& places) const {
  const Sizes& strides = graph().meta(value).strides;
  const DimAtoms dims = sources_.dims(node().outputs[0]);
  IndexMap map;
  for (size_t i = 0; i < places.size(); ++i) {
    map.add(offset_term(sources_.sizes->term(places[i].offset * strides[i])));
    if (places[i].step == 0) continue;
    const SizeExpr step = strides[i] * SizeExpr(places[i].step);
    add_dim_terms(map, *sources_.sizes, dims[places[i].dim], *sources_.extents, step);
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
  map.add(value_term(sources_.sizes->term(graph().meta(value).strides[dim]), index.value()));
  return {builder_, sources_.load(value, map, {})};
}

}  // namespace diptych::detail
