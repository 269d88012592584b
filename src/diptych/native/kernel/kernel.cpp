#include "diptych/native/kernel/kernel.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace diptych::detail {
namespace {

void add_map_values(std::vector<int32_t>& used, const IndexMap& map) {
  for (const IndexTerm& term : map.terms()) {
    if (term.factor == IndexFactor::kValue) used.push_back(term.id);
  }
}

DimSet map_dims(const IndexMap& map) {
  DimSet dims;
  for (const IndexTerm& term : map.terms()) {
    if (term.factor == IndexFactor::kDim) dims = dims | DimSet::of(term.id);
  }
  return dims;
}

DimSet domains_of(const std::vector<int32_t>& values, const std::vector<DimSet>& domains) {
  DimSet dims;
  for (const int32_t value : values) dims = dims | domains[value];
  return dims;
}

const IndexMap* map_of(const KernelValue& value) {
  if (const auto* index = std::get_if<KernelIndex>(&value.made_by)) return &index->map;
  const auto* load = std::get_if<KernelLoad>(&value.made_by);
  return load ? &load->map : nullptr;
}

bool same_double(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

bool KernelNumber::operator==(const KernelNumber& other) const {
  if (number.index() != other.number.index()) return false;
  if (const auto* integer = std::get_if<int64_t>(&number)) return *integer == std::get<int64_t>(other.number);
  if (const auto* real = std::get_if<double>(&number)) return same_double(*real, std::get<double>(other.number));
  const auto a = std::get<std::complex<double>>(number), b = std::get<std::complex<double>>(other.number);
  return same_double(a.real(), b.real()) && same_double(a.imag(), b.imag());
}

std::vector<int32_t> values_used(const KernelValue& value) {
  std::vector<int32_t> used;
  if (const auto* map = map_of(value)) add_map_values(used, *map);
  const auto* load = std::get_if<KernelLoad>(&value.made_by);
  if (load && load->mask) used.insert(used.end(), {load->mask->condition, load->mask->other});
  if (const auto* scalar = std::get_if<KernelScalar>(&value.made_by)) used = scalar->operands;
  if (const auto* reduce = std::get_if<KernelReduce>(&value.made_by)) used = {reduce->operand};
  return used;
}

std::vector<int32_t> values_used(const KernelStore& store) {
  std::vector<int32_t> used;
  add_map_values(used, store.map);
  used.push_back(store.value);
  return used;
}

std::vector<DimSet> value_domains(const Kernel& kernel) {
  std::vector<DimSet> domains;
  for (const KernelValue& value : kernel.values) {
    DimSet dims = domains_of(values_used(value), domains);
    if (const auto* map = map_of(value)) dims = dims | map_dims(*map);
    if (const auto* reduce = std::get_if<KernelReduce>(&value.made_by)) dims = dims.without(reduce->over);
    domains.push_back(dims);
  }
  return domains;
}

DimSet store_domain(const KernelStore& store, const std::vector<DimSet>& domains) {
  return domains_of(values_used(store), domains) | map_dims(store.map);
}

int32_t symbol_count(const Kernel& kernel) {
  int32_t count = 0;
  const auto see = [&](const SizeTerm& term) { count = std::max(count, term.symbol + 1); };
  const auto see_map = [&](const IndexMap& map) {
    for (const IndexTerm& term : map.terms()) see(term.coefficient);
  };
  for (const SizeTerm& extent : kernel.extents) see(extent);
  for (const KernelValue& value : kernel.values) {
    if (const auto* map = map_of(value)) see_map(*map);
  }
  for (const KernelStore& store : kernel.stores) see_map(store.map);
  return count;
}

int64_t hint_of(const Kernel& kernel, const SizeTerm& size) {
  constexpr int64_t kMiddling = 256;
  if (size.is_constant()) return size.factor;
  const auto symbol = static_cast<size_t>(size.symbol);
  return size.factor * (symbol < kernel.hints.size() ? kernel.hints[symbol] : kMiddling);
}

Kernel at_hints(const Kernel& kernel) {
  Kernel result = kernel;
  const auto fix_size = [&](SizeTerm& size) { size = SizeTerm{hint_of(kernel, size)}; };
  const auto fix_map = [&](IndexMap& map) {
    IndexMap fixed;
    for (IndexTerm term : map.terms()) {
      fix_size(term.coefficient);
      fixed.add(term);
    }
    map = fixed;
  };
  std::ranges::for_each(result.extents, fix_size);
  for (KernelValue& value : result.values) {
    if (auto* load = std::get_if<KernelLoad>(&value.made_by)) fix_map(load->map);
    if (auto* index = std::get_if<KernelIndex>(&value.made_by)) fix_map(index->map);
  }
  for (KernelStore& store : result.stores) fix_map(store.map);
  result.hints.clear();
  return result;
}

}  // namespace diptych::detail
