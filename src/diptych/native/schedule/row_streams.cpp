#include "diptych/native/schedule/row_streams.h"

#include <algorithm>

#include "diptych/native/schedule/cache_sizes.h"
#include "diptych/native/schedule/nontemporal_stores.h"

namespace diptych::detail {
namespace {

constexpr int64_t kUsualSecondCache = 256 << 10;  // a core's second, where the system does not say
constexpr int64_t kCachedBytes = 1 << 20;         // of buffers that an earlier kernel may have left in the cache

// This row and the next one take up to nine tenths of a core's second cache.
int64_t most_row_bytes() {
  static const int64_t bytes = cache_bytes(/*level=*/2, kUsualSecondCache) / 20 * 9;
  return bytes;
}

// Whether lanes lie side by side, and each row has other elements than the one before.
bool goes_by_rows(const Schedule& s, const IndexMap& map) {
  bool is_side_by_side = false, moves = false;
  for (const IndexTerm& term : map.terms()) {
    if (term.factor == IndexFactor::kValue) return false;
    if (term.factor == IndexFactor::kOne) continue;
    if (term.id == s.vector_dim) is_side_by_side = term.coefficient == SizeTerm{1};
    moves = moves || term.id == s.outer.back();
  }
  return is_side_by_side && moves;
}

}  // namespace

std::vector<RowStream> streams_ahead(const Schedule& s, const std::vector<bool>& nontemporal) {
  if (!s.is_vector_in_row || s.outer.empty() || s.passes == 0) return {};
  std::vector<RowStream> streams;
  const auto add = [&](const RowStream& stream) {
    const bool is_known = std::ranges::any_of(streams, [&](const RowStream& other) {
      return other.is_output == stream.is_output && other.buffer == stream.buffer && other.map == stream.map;
    });
    if (!is_known && goes_by_rows(s, stream.map)) streams.push_back(stream);
  };
  for (const KernelValue& value : s.kernel.values) {
    const auto* load = std::get_if<KernelLoad>(&value.made_by);
    if (load != nullptr) add({false, load->input, value.dtype, load->map});
  }
  const bool moves_enough = MovedBytes(s).likely() >= least_nontemporal_bytes();
  for (size_t i = 0; i < s.kernel.stores.size(); ++i) {
    const KernelStore& store = s.kernel.stores[i];
    if (!s.is_final[store.value] && !(moves_enough && nontemporal[i]))
      add({true, store.output, s.kernel.values[store.value].dtype, store.map});
  }
  int64_t bytes = 0;
  for (const RowStream& stream : streams) {
    bytes += s.likely_count(s.row) * static_cast<int64_t>(c10::elementSize(stream.dtype));
  }
  DimSet outer;
  for (const int32_t dim : s.outer) outer = outer | DimSet::of(dim);
  const bool pays = bytes <= most_row_bytes() && bytes * s.likely_count(outer) > kCachedBytes;
  return pays ? streams : std::vector<RowStream>{};
}

}  // namespace diptych::detail
