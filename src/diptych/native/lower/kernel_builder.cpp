#include "diptych/native/lower/kernel_builder.h"

#include <c10/util/hash.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"

namespace diptych::detail {
namespace {

// Room for one element of any dtype.
using Element = std::array<char, 16>;

Element element_of(const KernelConstant& constant, at::ScalarType dtype) {
  Element element{};
  if (const auto* integer = std::get_if<int64_t>(&constant.number.number)) {
    cast_element(at::kLong, integer, dtype, element.data());
  } else if (const auto* real = std::get_if<double>(&constant.number.number)) {
    cast_element(at::kDouble, real, dtype, element.data());
  } else {
    const c10::complex<double> number(std::get<std::complex<double>>(constant.number.number));
    cast_element(at::kComplexDouble, &number, dtype, element.data());
  }
  return element;
}

KernelConstant constant_from(const Element& element, at::ScalarType dtype) {
  if (has_dtype(kFloats | kHalves, dtype)) {
    double number = 0;
    cast_element(dtype, element.data(), at::kDouble, &number);
    return {{number}};
  }
  if (has_dtype(kComplexes, dtype)) {
    c10::complex<double> number;
    cast_element(dtype, element.data(), at::kComplexDouble, &number);
    return {{std::complex<double>(number)}};
  }
  int64_t number = 0;
  cast_element(dtype, element.data(), at::kLong, &number);
  return {{number}};
}

size_t hash_of(const KernelValue& value) {
  size_t hash = c10::hash_combine(static_cast<size_t>(value.dtype), value.made_by.index());
  const auto mix = [&](auto part) { hash = c10::hash_combine(hash, std::hash<decltype(part)>()(part)); };
  for (const int32_t used : values_used(value)) mix(used);
  if (const auto* scalar = std::get_if<KernelScalar>(&value.made_by)) mix(scalar->op);
  if (const auto* reduce = std::get_if<KernelReduce>(&value.made_by)) mix(reduce->over.bits);
  if (const auto* load = std::get_if<KernelLoad>(&value.made_by)) mix(load->input);
  return hash;
}

}  // namespace

int32_t KernelBuilder::add(KernelValue value) {
  const size_t hash = hash_of(value);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    if (values_[found->second] == value) return found->second;
  }
  const auto number = static_cast<int32_t>(values_.size());
  values_.push_back(std::move(value));
  by_hash_.emplace(hash, number);
  return number;
}

int32_t KernelBuilder::constant(const at::Scalar& number, at::ScalarType dtype) {
  const bool is_half = has_dtype(kHalves, dtype);
  const auto held = is_half ? at::kFloat : dtype;
  Element element{};
  if (number.isComplex()) {
    const auto complex = number.to<c10::complex<double>>();
    cast_element(at::kComplexDouble, &complex, held, element.data());
  } else if (number.isFloatingPoint()) {
    const double real = number.to<double>();
    cast_element(at::kDouble, &real, held, element.data());
  } else {
    const auto integer = number.to<int64_t>();
    cast_element(at::kLong, &integer, held, element.data());
  }
  const int32_t value = add({held, constant_from(element, held)});
  return is_half ? cast(value, dtype) : value;
}

int32_t KernelBuilder::index(const IndexMap& map) { return add({at::kLong, KernelIndex{map}}); }

int32_t KernelBuilder::load(int32_t input, at::ScalarType dtype, const IndexMap& map, std::optional<LoadMask> mask) {
  return add({dtype, KernelLoad{input, map, mask}});
}

const KernelConstant* KernelBuilder::constant_of(int32_t value) const {
  return std::get_if<KernelConstant>(&values_[value].made_by);
}

int32_t KernelBuilder::fold(const ScalarOp& op, at::ScalarType dtype, const std::vector<int32_t>& operands) {
  std::vector<Element> elements;
  for (const int32_t operand : operands) elements.push_back(element_of(*constant_of(operand), values_[operand].dtype));
  std::vector<const void*> places;
  for (const Element& element : elements) places.push_back(element.data());
  Element result{};
  op.evaluate(values_[operands[op.has_condition ? 1 : 0]].dtype, dtype, places.data(), result.data());
  return add({dtype, constant_from(result, dtype)});
}

int32_t KernelBuilder::scalar(std::string_view name, std::vector<int32_t> operands) {
  const ScalarOp& op = *find_scalar_op(name);
  if (op.has_condition) {
    if (operands[1] == operands[2]) return operands[1];
    if (const auto* condition = constant_of(operands[0]))
      return operands[std::get<int64_t>(condition->number.number) != 0 ? 1 : 2];
  }
  const auto dtype = *result_dtype(op.result, values_[operands[op.has_condition ? 1 : 0]].dtype);
  const auto is_constant = [&](int32_t operand) { return constant_of(operand) != nullptr; };
  if (std::all_of(operands.begin(), operands.end(), is_constant)) return fold(op, dtype, operands);
  return add({dtype, KernelScalar{&op, std::move(operands)}});
}

int32_t KernelBuilder::cast(int32_t value, at::ScalarType dtype) {
  const auto from = values_[value].dtype;
  if (from == dtype) return value;
  const ScalarOp& op = *find_scalar_op("cast");
  if (has_dtype(kHalves, from)) {
    // A constant that was rounded to a half.
    const auto* rounded = std::get_if<KernelScalar>(&values_[value].made_by);
    if (rounded && rounded->op == &op && constant_of(rounded->operands[0])) {
      const int32_t exact = rounded->operands[0];
      const Element half = element_of({constant_from(element_of(*constant_of(exact), from), from)}, from);
      return cast(add({at::kFloat, constant_from(half, from)}), dtype);
    }
  }
  if (constant_of(value) && !has_dtype(kHalves, dtype)) return fold(op, dtype, {value});
  return add({dtype, KernelScalar{&op, {value}}});
}

int32_t KernelBuilder::reduce(std::string_view reduction, int32_t operand, DimSet over, at::ScalarType dtype) {
  if (over.empty()) return cast(operand, dtype);
  return add({dtype, KernelReduce{find_reduction(reduction), operand, over}});
}

namespace {

void renumber_map(IndexMap& map, const std::vector<int32_t>& numbers) {
  IndexMap renumbered;
  for (IndexTerm term : map.terms()) {
    if (term.factor == IndexFactor::kValue) term.id = numbers[term.id];
    renumbered.add(term);
  }
  map = std::move(renumbered);
}

void renumber(KernelValue& value, const std::vector<int32_t>& numbers) {
  if (auto* index = std::get_if<KernelIndex>(&value.made_by)) renumber_map(index->map, numbers);
  if (auto* reduce = std::get_if<KernelReduce>(&value.made_by)) reduce->operand = numbers[reduce->operand];
  if (auto* scalar = std::get_if<KernelScalar>(&value.made_by)) {
    for (int32_t& operand : scalar->operands) operand = numbers[operand];
  }
  if (auto* load = std::get_if<KernelLoad>(&value.made_by)) {
    renumber_map(load->map, numbers);
    if (load->mask) load->mask = LoadMask{numbers[load->mask->condition], numbers[load->mask->other]};
  }
}

}  // namespace

void remove_unused_values(Kernel& kernel) {
  std::vector<bool> is_used(kernel.values.size());
  for (const KernelStore& store : kernel.stores) {
    for (const int32_t value : values_used(store)) is_used[value] = true;
  }
  for (size_t i = kernel.values.size(); i-- > 0;) {
    if (!is_used[i]) continue;
    for (const int32_t value : values_used(kernel.values[i])) is_used[value] = true;
  }
  std::vector<int32_t> numbers(kernel.values.size());
  std::vector<KernelValue> kept;
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    if (!is_used[i]) continue;
    renumber(kernel.values[i], numbers);
    numbers[i] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(kernel.values[i]));
  }
  kernel.values = std::move(kept);
  for (KernelStore& store : kernel.stores) {
    renumber_map(store.map, numbers);
    store.value = numbers[store.value];
  }
}

}  // namespace diptych::detail
