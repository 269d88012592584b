#include "diptych/native/kernel/store_overlap.h"

#include <fmt/format.h>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "diptych/base/error.h"

namespace diptych::detail {
namespace {

constexpr std::string_view kRemedy = "reduce over one of them before, or write `store add`";

// The dims on which an index depends by way of values, so that nothing can be told about them.
DimSet indirect_dims(const IndexMap& map, const std::vector<DimSet>& domains) {
  DimSet dims;
  for (const IndexTerm& term : map.terms()) {
    if (term.factor == IndexFactor::kValue) dims = dims | domains[term.id];
  }
  return dims;
}

// The coefficient of a dim: 0 if it has none, nothing if a symbol is in it.
std::optional<int64_t> constant_coefficient(const IndexMap& map, int32_t dim) {
  int64_t coefficient = 0;
  for (const IndexTerm& term : map.terms()) {
    if (term.factor != IndexFactor::kDim || term.id != dim) continue;
    if (!term.coefficient.is_constant()) return std::nullopt;
    coefficient = term.coefficient.factor;
  }
  return coefficient;
}

struct StoredDim {
  int32_t dim;
  int64_t coefficient;
  int64_t extent;
};

// Steps of b's coefficient along a and of a's along b cancel; they meet if both fit into the extents.
bool meet(const StoredDim& a, const StoredDim& b) {
  const int64_t divisor = std::gcd(a.coefficient, b.coefficient);
  return std::abs(b.coefficient / divisor) < a.extent && std::abs(a.coefficient / divisor) < b.extent;
}

}  // namespace

std::string overlap_fault(const Kernel& kernel, const KernelStore& store, const std::vector<DimSet>& domains) {
  const DimSet told = store_domain(store, domains).without(indirect_dims(store.map, domains));
  std::vector<StoredDim> constant;
  for (int32_t dim = 0; dim < static_cast<int32_t>(kernel.extents.size()); ++dim) {
    const SizeTerm& extent = kernel.extents[dim];
    const auto coefficient = constant_coefficient(store.map, dim);
    if (extent == SizeTerm{0}) return {};  // nothing is written
    if (!told.contains(dim) || !coefficient || extent == SizeTerm{1}) continue;
    if (*coefficient == 0) {
      return fmt::format(
          "it writes one element at each position along d{}; reduce over d{} before, or write `store add`", dim, dim);
    }
    if (extent.is_constant()) constant.push_back({dim, *coefficient, extent.factor});
  }
  for (size_t i = 0; i < constant.size(); ++i) {
    for (size_t j = i + 1; j < constant.size(); ++j) {
      if (!meet(constant[i], constant[j])) continue;
      return fmt::format("its map sends several positions along d{} and d{} to one element; {}", constant[i].dim,
                         constant[j].dim, kRemedy);
    }
  }
  return {};
}

}  // namespace diptych::detail
