#include "diptych/native/lower/merge_dims.h"

#include <algorithm>

#include "diptych/native/kernel/reduction.h"

namespace diptych::detail {
namespace {

template <class Visit>
void for_each_reduction(Kernel& kernel, const Visit& visit) {
  for (KernelValue& value : kernel.values) {
    if (auto* reduce = std::get_if<KernelReduce>(&value.made_by)) visit(*reduce);
  }
}

// What a map steps by along each dim.
SizeExpr step_along(const IndexMap& map, int32_t dim, const SizeTable& sizes) {
  SizeExpr step = 0;
  for (const IndexTerm& term : map.terms()) {
    if (term.factor == IndexFactor::kDim && term.id == dim) step = step + sizes.size(term.coefficient);
  }
  return step;
}

// Whether a product is one of 64 bits.
bool has_product(const SizeExpr& a, const SizeExpr& b) {
  int64_t product = 0;
  return !__builtin_mul_overflow(a.hint(), b.hint(), &product);
}

bool counts_positions(const KernelReduce& reduce) { return reduce.reduction->result == ReductionResult::kPosition; }

// Whether the positions along `outer` and `inner` may be counted as those along one dim.
bool run_together(Kernel& kernel, int32_t outer, int32_t inner, const SizeTable& sizes) {
  const SizeExpr extent = sizes.size(kernel.extents[inner]), rest = sizes.size(kernel.extents[outer]);
  bool together = has_product(extent, rest);
  for_each_map(kernel, [&](const IndexMap& map) {
    if (!together) return;
    const SizeExpr step = step_along(map, inner, sizes);
    together = has_product(step, extent) && step_along(map, outer, sizes) == step * extent;
  });
  for_each_reduction(kernel, [&](const KernelReduce& reduce) {
    const bool ends = reduce.over.contains(outer);
    together = together && ends == reduce.over.contains(inner);
    if (!ends || !counts_positions(reduce)) return;
    // No other dim may be counted between the two.
    for (int32_t dim = outer + 1; dim < inner; ++dim) together = together && !reduce.over.contains(dim);
    together = together && outer < inner;
  });
  return together;
}

// Leaves out dims, whose terms are dropped, and numbers the others anew.
void drop_dims(Kernel& kernel, DimSet dropped) {
  std::vector<int32_t> numbers(kernel.extents.size());
  std::vector<SizeTerm> extents;
  for (size_t dim = 0; dim < kernel.extents.size(); ++dim) {
    numbers[dim] = static_cast<int32_t>(extents.size());
    if (!dropped.contains(static_cast<int32_t>(dim))) extents.push_back(kernel.extents[dim]);
  }
  kernel.extents = std::move(extents);
  for_each_map(kernel, [&](IndexMap& map) {
    IndexMap kept;
    for (IndexTerm term : map.terms()) {
      if (term.factor == IndexFactor::kDim) {
        if (dropped.contains(term.id)) continue;
        term.id = numbers[term.id];
      }
      kept.add(term);
    }
    map = std::move(kept);
  });
  for_each_reduction(kernel, [&](KernelReduce& reduce) {
    DimSet over;
    for (size_t dim = 0; dim < numbers.size(); ++dim) {
      const auto old = static_cast<int32_t>(dim);
      if (reduce.over.contains(old) && !dropped.contains(old)) over = over | DimSet::of(numbers[dim]);
    }
    reduce.over = over;
  });
}

// The dims that some map or reduction names.
DimSet named_dims(Kernel& kernel) {
  DimSet named;
  for_each_map(kernel, [&](const IndexMap& map) {
    for (const IndexTerm& term : map.terms()) {
      if (term.factor == IndexFactor::kDim) named = named | DimSet::of(term.id);
    }
  });
  for_each_reduction(kernel, [&](const KernelReduce& reduce) { named = named | reduce.over; });
  return named;
}

// Merges one dim into another that is outside of it in all maps. Returns whether there was one.
bool merge_one(Kernel& kernel, SizeTable& sizes) {
  const auto count = static_cast<int32_t>(kernel.extents.size());
  for (int32_t inner = 0; inner < count; ++inner) {
    for (int32_t outer = 0; outer < count; ++outer) {
      if (outer == inner || !run_together(kernel, outer, inner, sizes)) continue;
      kernel.extents[inner] = sizes.term(sizes.size(kernel.extents[outer]) * sizes.size(kernel.extents[inner]));
      drop_dims(kernel, DimSet::of(outer));
      return true;
    }
  }
  return false;
}

// Dims of one position that a reduction does not need in order to reduce over something.
DimSet needless_dims(Kernel& kernel) {
  const DimSet named = named_dims(kernel);
  DimSet single, needless;
  for (size_t i = 0; i < kernel.extents.size(); ++i) {
    const auto dim = DimSet::of(static_cast<int32_t>(i));
    if ((named & dim).empty()) needless = needless | dim;
    if (kernel.extents[i] == SizeTerm{1}) single = single | dim;
  }
  for_each_reduction(kernel, [&](const KernelReduce& reduce) {
    if (reduce.over.without(single).empty()) single = single.without(reduce.over);
  });
  return needless | single;
}

}  // namespace

void merge_dims(Kernel& kernel, SizeTable& sizes) {
  drop_dims(kernel, needless_dims(kernel));
  while (merge_one(kernel, sizes)) {
  }
}

}  // namespace diptych::detail
