#include "diptych/native/schedule/scattered_sums.h"

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "diptych/native/kernel/reduction.h"
#include "diptych/native/kernel/scalar_op.h"
#include "diptych/native/lower/kernel_builder.h"
#include "diptych/native/lower/merge_dims.h"
#include "diptych/native/schedule/kernel_patterns.h"

namespace diptych::detail {
namespace {

const KernelReduce& reduce_at(const Kernel& kernel, int32_t value) {
  return std::get<KernelReduce>(kernel.values[value].made_by);
}

// A sum of what is chosen along what it ends, for each position along a dim that it keeps.
std::optional<SumOfChosen> scattered_sum(const Kernel& kernel, const std::vector<DimSet>& domains, int32_t value) {
  for (const int side : {0, 1}) {
    const auto found = sum_of_chosen(kernel, value, side);
    if (!found) continue;
    const DimSet over = reduce_at(kernel, value).over;
    const bool is_chosen = !(domains[found->chosen] & over).empty();
    if (!over.contains(found->dim) && is_chosen) return found;
  }
  return std::nullopt;
}

std::vector<int> count_uses(const Kernel& kernel) {
  std::vector<int> uses(kernel.values.size());
  for (const KernelValue& value : kernel.values) {
    for (const int32_t used : values_used(value)) ++uses[used];
  }
  for (const KernelStore& store : kernel.stores) {
    for (const int32_t used : values_used(store)) ++uses[used];
  }
  return uses;
}

// What a store writes, as a scattered sum and what is added to it: the value of `rest`, if it is not -1.
struct StoredSum {
  SumOfChosen parts;
  int32_t sum = 0, rest = -1;
};

class AddingStores {
 public:
  explicit AddingStores(const Kernel& kernel) : kernel_(kernel), domains_(value_domains(kernel)) {}

  Kernel run() {
    uses_ = count_uses(kernel_);
    const size_t count = kernel_.stores.size();
    for (size_t i = 0; i < count; ++i) {
      if (const auto found = find(kernel_.stores[i])) split(i, *found);
    }
    return std::move(kernel_);
  }

 private:
  std::optional<StoredSum> find(const KernelStore& store) const {
    if (store.is_add || uses_[store.value] != 1 || !has_dtype(kRealNumbers, kernel_.values[store.value].dtype))
      return {};
    auto found = find(store.value);
    if (!found || store_domain(store, domains_) != domains_[found->sum]) return {};
    const SumOfChosen& parts = found->parts;
    const DimSet slices = domains_[parts.chosen] | domains_[parts.added];
    const bool fits = !slices.contains(parts.dim) && reduce_at(kernel_, found->sum).over.without(slices).empty() &&
                      kernel_.extents[parts.dim].is_constant();
    return fits ? found : std::nullopt;
  }

  std::optional<StoredSum> find(int32_t value) const {
    if (const auto parts = scattered_sum(kernel_, domains_, value)) return StoredSum{*parts, value, -1};
    const KernelScalar* add = scalar_of(kernel_, value, "add");
    if (add == nullptr) return std::nullopt;
    for (const int side : {0, 1}) {
      const int32_t sum = add->operands[side];
      const auto parts = uses_[sum] == 1 ? scattered_sum(kernel_, domains_, sum) : std::nullopt;
      if (parts) return StoredSum{*parts, sum, add->operands[1 - side]};
    }
    return std::nullopt;
  }

  int32_t add(at::ScalarType dtype, decltype(KernelValue::made_by) made_by) {
    kernel_.values.push_back({dtype, std::move(made_by)});
    return static_cast<int32_t>(kernel_.values.size()) - 1;
  }
  int32_t scalar(std::string_view op, at::ScalarType dtype, std::vector<int32_t> operands) {
    return add(dtype, KernelScalar{find_scalar_op(op), std::move(operands)});
  }

  // A slice whose index is no position adds zero at the first one.
  void split(size_t at, const StoredSum& found) {
    const auto [dim, chosen, added] = found.parts;
    const at::ScalarType dtype = kernel_.values[found.sum].dtype;
    const int32_t first = add(at::kLong, KernelConstant{{int64_t{0}}});
    const int32_t end = add(at::kLong, KernelConstant{{kernel_.extents[dim].factor}});
    const int32_t is_inside =
        scalar("and", at::kBool, {scalar("ge", at::kBool, {chosen, first}), scalar("lt", at::kBool, {chosen, end})});
    const int32_t zero = add(dtype, KernelConstant{zero_of(dtype)});
    const int32_t index = scalar("select", at::kLong, {is_inside, chosen, first});
    const int32_t slice = scalar("select", dtype, {is_inside, added, zero});
    KernelStore adding{kernel_.stores[at].output, {}, slice, true};
    for (const IndexTerm& term : kernel_.stores[at].map.terms()) {
      const bool is_position = term.factor == IndexFactor::kDim && term.id == dim;
      adding.map.add(is_position ? value_term(term.coefficient, index) : term);
    }
    kernel_.stores[at].value = found.rest < 0 ? zero : found.rest;
    kernel_.stores.push_back(std::move(adding));
  }

  Kernel kernel_;
  std::vector<DimSet> domains_;  // of the values that the kernel came with
  std::vector<int> uses_;
};

// Whether any of equal ones is true does not take all of them.
void narrow_reductions(Kernel& kernel) {
  const auto domains = value_domains(kernel);
  for (KernelValue& value : kernel.values) {
    auto* reduce = std::get_if<KernelReduce>(&value.made_by);
    if (reduce == nullptr || reduce->reduction->name != "any") continue;
    const DimSet needed = reduce->over & domains[reduce->operand];
    if (!needed.empty()) reduce->over = needed;
  }
}

DimSet dims_used(const Kernel& kernel) {
  const auto domains = value_domains(kernel);
  DimSet used;
  for (size_t i = 0; i < kernel.values.size(); ++i) {
    used = used | domains[i];
    if (const auto* reduce = std::get_if<KernelReduce>(&kernel.values[i].made_by)) used = used | reduce->over;
  }
  for (const KernelStore& store : kernel.stores) used = used | store_domain(store, domains);
  return used;
}

void keep_dims(Kernel& kernel, DimSet kept) {
  std::vector<int32_t> numbers(kernel.extents.size());
  std::vector<SizeTerm> extents;
  for (size_t dim = 0; dim < numbers.size(); ++dim) {
    numbers[dim] = static_cast<int32_t>(extents.size());
    if (kept.contains(static_cast<int32_t>(dim))) extents.push_back(kernel.extents[dim]);
  }
  for_each_map(kernel, [&](IndexMap& map) {
    IndexMap renumbered;
    for (IndexTerm term : map.terms()) {
      if (term.factor == IndexFactor::kDim) term.id = numbers[term.id];
      renumbered.add(term);
    }
    map = std::move(renumbered);
  });
  for (KernelValue& value : kernel.values) {
    auto* reduce = std::get_if<KernelReduce>(&value.made_by);
    if (reduce == nullptr) continue;
    DimSet over;
    for (size_t dim = 0; dim < numbers.size(); ++dim) {
      if (reduce->over.contains(static_cast<int32_t>(dim))) over = over | DimSet::of(numbers[dim]);
    }
    reduce->over = over;
  }
  kernel.extents = std::move(extents);
}

Kernel with_stores(const Kernel& kernel, std::vector<KernelStore> stores) {
  Kernel part = kernel;
  part.stores = std::move(stores);
  narrow_reductions(part);
  remove_unused_values(part);
  return part;
}

// Stores of one part: what they run along, and whether they add.
struct Part {
  DimSet dims;
  bool is_add = false;
  std::vector<KernelStore> stores;
};

std::vector<Kernel> sums_apart(const Kernel& kernel) {
  std::vector<Part> parts;
  for (const KernelStore& store : kernel.stores) {
    const DimSet dims = dims_used(with_stores(kernel, {store}));
    const auto same = [&](const Part& part) { return part.dims == dims && part.is_add == store.is_add; };
    const auto found = std::ranges::find_if(parts, same);
    if (found == parts.end()) {
      parts.push_back({dims, store.is_add, {store}});
    } else {
      found->stores.push_back(store);
    }
  }
  std::vector<Kernel> kernels;
  for (const Part& part : parts) {
    kernels.push_back(with_stores(kernel, part.stores));
    keep_dims(kernels.back(), part.dims);
    if (parts.size() > 1) kernels.back().name += fmt::format("_part_{}", kernels.size() - 1);
  }
  return kernels;
}

// The step along a dim and its extent, where both are constants.
struct Digit {
  int64_t step = 0, extent = 0;
};
std::optional<Digit> digit_of(const Kernel& kernel, const IndexMap& map, int32_t dim) {
  for (const IndexTerm& term : map.terms()) {
    if (term.factor != IndexFactor::kDim || term.id != dim) continue;
    if (!term.coefficient.is_constant() || !kernel.extents[dim].is_constant()) return std::nullopt;
    return Digit{term.coefficient.factor, kernel.extents[dim].factor};
  }
  return std::nullopt;
}

// Whether the position along a dim is a digit of the index: all other terms are multiples of what it counts up to, or
// together less than its step.
bool is_digit(const Kernel& kernel, const IndexMap& map, int32_t dim) {
  const auto own = digit_of(kernel, map, dim);
  if (!own || own->step <= 0) return false;
  int64_t below = 0;
  for (const IndexTerm& term : map.terms()) {
    const bool is_dim = term.factor == IndexFactor::kDim;
    if (term.factor == IndexFactor::kOne || (is_dim && term.id == dim)) continue;
    if (!term.coefficient.is_constant()) return false;
    const int64_t step = term.coefficient.factor;
    if (step % (own->step * own->extent) == 0) continue;
    if (!is_dim || step < 0 || !kernel.extents[term.id].is_constant()) return false;
    below += step * (kernel.extents[term.id].factor - 1);
  }
  return below < own->step;
}

}  // namespace

std::vector<Kernel> kernels_without_scattered_sums(const Kernel& kernel) {
  Kernel adding = AddingStores(kernel).run();
  const bool has_adds = std::ranges::any_of(adding.stores, &KernelStore::is_add);
  if (!has_adds) return {kernel};
  return sums_apart(adding);
}

bool has_scattered_sum(const Kernel& kernel) {
  const auto domains = value_domains(kernel);
  for (const KernelValue& value : kernel.values) {
    const auto* reduce = std::get_if<KernelReduce>(&value.made_by);
    if (reduce == nullptr || reduce->reduction->name != "sum") continue;
    const KernelScalar* select = scalar_of(kernel, reduce->operand, "select");
    const KernelScalar* equal = select == nullptr ? nullptr : scalar_of(kernel, select->operands[0], "eq");
    if (equal == nullptr) continue;
    for (const int side : {0, 1}) {
      const int32_t position = equal->operands[side], chosen = equal->operands[1 - side];
      const bool is_position = std::holds_alternative<KernelIndex>(kernel.values[position].made_by);
      const bool is_kept = !domains[position].empty() && (domains[position] & reduce->over).empty();
      if (is_position && is_kept && !(domains[chosen] & reduce->over).empty()) return true;
    }
  }
  return false;
}

DimSet dims_apart(const Kernel& kernel) {
  DimSet apart;
  for (int32_t dim = 0; dim < static_cast<int32_t>(kernel.extents.size()); ++dim) {
    const bool is_apart =
        std::ranges::all_of(kernel.stores, [&](const KernelStore& store) { return is_digit(kernel, store.map, dim); });
    if (is_apart) apart = apart | DimSet::of(dim);
  }
  return apart;
}

}  // namespace diptych::detail
