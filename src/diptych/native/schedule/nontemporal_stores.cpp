#include "diptych/native/schedule/nontemporal_stores.h"

#include <algorithm>
#include <atomic>

#include "diptych/native/kernel/memory_extent.h"
#include "diptych/native/schedule/cache_sizes.h"

namespace diptych::detail {
namespace {

constexpr int64_t kUsualLastCache = 32 << 20;  // where the system does not say
constexpr int64_t kLeastLoopBytes = 1024;      // of a loop: its first and last lines are written ordinarily
constexpr int64_t kGrowth = 16;                // of dynamic sizes, beyond their hints
constexpr int64_t kLeastVectorBytes = 16;      // narrower vectors have no such stores

std::atomic<int64_t>& least_bytes() {
  static std::atomic<int64_t> bytes{cache_bytes(/*level=*/3, kUsualLastCache)};
  return bytes;
}

int64_t bytes_of_element(at::ScalarType dtype) { return static_cast<int64_t>(c10::elementSize(dtype)); }

bool is_side_by_side(const IndexMap& map, int32_t dim) {
  return std::ranges::any_of(map.terms(), [&](const IndexTerm& term) {
    return term.factor == IndexFactor::kDim && term.id == dim && term.coefficient == SizeTerm{1};
  });
}

bool is_nontemporal(const Schedule& s, const KernelStore& store) {
  const auto size = bytes_of_element(s.kernel.values[store.value].dtype);
  const int64_t least_loop = std::min(kLeastLoopBytes, least_nontemporal_bytes());
  return !store.is_add && !s.is_final[store.value] && is_side_by_side(store.map, s.vector_dim) &&
         s.lanes * size >= kLeastVectorBytes && s.likely_extent(s.vector_dim) * size >= least_loop;
}

}  // namespace

int64_t least_nontemporal_bytes() { return least_bytes(); }

void set_least_nontemporal_bytes(int64_t bytes) { least_bytes() = bytes; }

MovedBytes::MovedBytes(const Schedule& s) : buffers_(s.kernel.inputs.size()) {
  for (size_t i = 0; i < s.kernel.values.size(); ++i) {
    const auto* load = std::get_if<KernelLoad>(&s.kernel.values[i].made_by);
    if (load != nullptr)
      buffers_[load->input].push_back(s.count(s.domains[i]) * bytes_of_element(s.kernel.values[i].dtype));
  }
  for (const KernelStore& store : s.kernel.stores) {
    buffers_.push_back(
        {s.count(store_domain(store, s.domains)) * bytes_of_element(s.kernel.values[store.value].dtype)});
  }
  for (int32_t i = 0; i < symbol_count(s.kernel); ++i) hints_.push_back(hint_of(s.kernel, {1, i}));
}

int64_t MovedBytes::at(const std::vector<int64_t>& symbols) const {
  int64_t bytes = 0;
  for (const auto& buffer : buffers_) {
    int64_t most = 0;
    for (const SizeProduct& each : buffer) most = std::max(most, each.at(symbols));
    bytes += most;
  }
  return bytes;
}

std::vector<bool> nontemporal_stores(const Schedule& s) {
  std::vector<bool> nontemporal(s.kernel.stores.size(), false);
  const bool is_innermost = s.vector_dim >= 0 && (s.is_vector_in_row || s.row.empty());
  if (!is_innermost || !s.target.has_nontemporal_stores) return nontemporal;
  const bool is_fixed = std::ranges::all_of(s.kernel.extents, [](const SizeTerm& size) { return size.is_constant(); });
  if (MovedBytes(s).likely() < least_nontemporal_bytes() / (is_fixed ? 1 : kGrowth)) return nontemporal;
  for (size_t i = 0; i < nontemporal.size(); ++i) nontemporal[i] = is_nontemporal(s, s.kernel.stores[i]);
  return nontemporal;
}

int64_t nontemporal_alignment(at::ScalarType dtype, int lanes) {
  return std::min<int64_t>(lanes * bytes_of_element(dtype), kCacheLine);
}

}  // namespace diptych::detail
