#include "diptych/native/fusion/reachability.h"

#include <algorithm>

namespace diptych::detail {
namespace {

void add_bits(std::vector<uint64_t>& to, const std::vector<uint64_t>& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] |= from[i];
}

void set_bit(std::vector<uint64_t>& bits, size_t index) { bits[index / 64] |= uint64_t{1} << (index % 64); }
void clear_bit(std::vector<uint64_t>& bits, size_t index) { bits[index / 64] &= ~(uint64_t{1} << (index % 64)); }

}  // namespace

Reachability::Reachability(const std::vector<std::vector<size_t>>& sources)
    : parents_(sources.size()), sources_(sources), ancestors_(sources.size(), Bits((sources.size() + 63) / 64)) {
  for (size_t unit = 0; unit < sources.size(); ++unit) {
    parents_[unit] = unit;
    for (const size_t source : sources[unit]) {
      add_bits(ancestors_[unit], ancestors_[source]);
      set_bit(ancestors_[unit], source);
    }
  }
}

size_t Reachability::find(size_t unit) const {
  while (parents_[unit] != unit) unit = parents_[unit];
  return unit;
}

bool Reachability::depends_through_third(size_t unit, size_t other) const {
  return std::any_of(sources_[unit].begin(), sources_[unit].end(), [&](size_t part) {
    const size_t source = find(part);
    return source != other && source != unit && depends(source, other);
  });
}

bool Reachability::would_be_cyclic(size_t a, size_t b) const {
  return depends_through_third(a, b) || depends_through_third(b, a);
}

size_t Reachability::merge(size_t a, size_t b) {
  parents_[b] = a;
  sources_[a].insert(sources_[a].end(), sources_[b].begin(), sources_[b].end());
  std::sort(sources_[a].begin(), sources_[a].end());
  sources_[a].erase(std::unique(sources_[a].begin(), sources_[a].end()), sources_[a].end());
  sources_[b].clear();
  add_bits(ancestors_[a], ancestors_[b]);
  clear_bit(ancestors_[a], a);
  clear_bit(ancestors_[a], b);
  for (size_t unit = 0; unit < parents_.size(); ++unit) {
    if (unit == a || parents_[unit] != unit || (!depends(unit, a) && !depends(unit, b))) continue;
    set_bit(ancestors_[unit], a);
    add_bits(ancestors_[unit], ancestors_[a]);
  }
  ancestors_[b].clear();
  return a;
}

}  // namespace diptych::detail
