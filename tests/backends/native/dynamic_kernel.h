// Kernels for sizes that each call gives, made of kernels for one.
#pragma once
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "diptych/native/kernel/kernel.h"

namespace diptych::testing {

/// A kernel whose numbers are the parameters of each call: extents, and steps along dims.
struct DynamicKernel {
  detail::Kernel kernel;
  std::vector<int64_t> symbols;
};

/// Makes about two in three of the sizes above one symbols. Hints are of other sizes, so that what is decided by them
/// has to hold for the call's.
inline DynamicKernel with_symbols(const detail::Kernel& kernel, uint32_t seed) {
  std::mt19937 random(seed);
  DynamicKernel result{kernel, {}};
  std::map<int64_t, detail::SizeTerm> chosen;
  const auto replace = [&](detail::SizeTerm size) {
    if (size.factor <= 1) return size;
    const auto [entry, is_new] = chosen.emplace(size.factor, size);
    if (!is_new || random() % 3 == 0) return entry->second;
    const int64_t factor = size.factor % 4 == 0 && random() % 2 == 0 ? 4 : 1;
    entry->second = {factor, static_cast<int32_t>(result.symbols.size())};
    result.symbols.push_back(size.factor / factor);
    result.kernel.hints.push_back(std::vector<int64_t>{2, 64, 5000}[random() % 3]);
    return entry->second;
  };
  const auto replace_map = [&](detail::IndexMap& map) {
    detail::IndexMap replaced;
    for (detail::IndexTerm term : map.terms()) {
      if (term.factor == detail::IndexFactor::kDim) term.coefficient = replace(term.coefficient);
      replaced.add(term);
    }
    map = replaced;
  };
  for (detail::SizeTerm& extent : result.kernel.extents) extent = replace(extent);
  for (detail::KernelValue& value : result.kernel.values) {
    if (auto* load = std::get_if<detail::KernelLoad>(&value.made_by)) replace_map(load->map);
    if (auto* index = std::get_if<detail::KernelIndex>(&value.made_by)) replace_map(index->map);
  }
  for (detail::KernelStore& store : result.kernel.stores) replace_map(store.map);
  return result;
}

}  // namespace diptych::testing
