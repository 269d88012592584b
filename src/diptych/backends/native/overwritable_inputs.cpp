#include "diptych/backends/native/overwritable_inputs.h"

#include <algorithm>
#include <map>

namespace diptych::detail {
namespace {

// The one store of an output, that writes every dim of the kernel's space; null if there is no such.
const KernelStore* only_store(const Kernel& kernel, int32_t output, const std::vector<DimSet>& domains) {
  const KernelStore* only = nullptr;
  for (const KernelStore& store : kernel.stores) {
    if (store.output != output) continue;
    if (only != nullptr || store.is_add) return nullptr;
    only = &store;
  }
  if (only == nullptr) return nullptr;
  // A store that does not run along some dim is done once, and loads that do are done before and after it.
  const int32_t points = store_domain(*only, domains).count();
  return points == static_cast<int32_t>(kernel.extents.size()) ? only : nullptr;
}

bool reduces(const Kernel& kernel) {
  return std::any_of(kernel.values.begin(), kernel.values.end(),
                     [](const KernelValue& value) { return std::holds_alternative<KernelReduce>(value.made_by); });
}

}  // namespace

std::vector<std::vector<int32_t>> overwritable_inputs(const Kernel& kernel) {
  std::vector<std::vector<int32_t>> result(kernel.outputs.size());
  if (reduces(kernel)) return result;
  const std::vector<DimSet> domains = value_domains(kernel);
  for (size_t output = 0; output < result.size(); ++output) {
    const KernelStore* const store = only_store(kernel, static_cast<int32_t>(output), domains);
    if (store == nullptr) continue;
    std::map<int32_t, bool> reads_alike;
    for (const KernelValue& value : kernel.values) {
      const auto* load = std::get_if<KernelLoad>(&value.made_by);
      if (load == nullptr) continue;
      const auto [entry, is_new] = reads_alike.emplace(load->input, true);
      entry->second = entry->second && load->map == store->map;
    }
    for (const auto& [input, is_alike] : reads_alike) {
      if (is_alike && kernel.inputs[input] == kernel.outputs[output]) result[output].push_back(input);
    }
  }
  return result;
}

}  // namespace diptych::detail
