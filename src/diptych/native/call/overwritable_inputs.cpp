#include "diptych/native/call/overwritable_inputs.h"

#include <algorithm>
#include <map>
#include <string>

#include "diptych/native/schedule/schedule.h"

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

template <class Kind>
bool is(const KernelValue& value) {
  return std::holds_alternative<Kind>(value.made_by);
}

// Whether all elements are read in one pass: reductions end once all points are done, and nothing is read for what
// follows from them.
bool has_one_pass(const Schedule& schedule) {
  if (schedule.passes > 0) return false;
  const auto& values = schedule.kernel.values;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!schedule.is_final[i] || is<KernelReduce>(values[i])) continue;
    for (const int32_t used : values_used(values[i])) {
      if (!schedule.is_final[used] && !is<KernelConstant>(values[used])) return false;
    }
  }
  return true;
}

// Whether a value follows from a reduction, by value.
std::vector<bool> follow_from_reductions(const Kernel& kernel) {
  std::vector<bool> follow(kernel.values.size());
  for (size_t i = 0; i < follow.size(); ++i) {
    follow[i] = is<KernelReduce>(kernel.values[i]);
    for (const int32_t used : values_used(kernel.values[i])) follow[i] = follow[i] || follow[used];
  }
  return follow;
}

}  // namespace

std::vector<std::vector<int32_t>> overwritable_inputs(const Kernel& source) {
  std::vector<std::vector<int32_t>> result(source.outputs.size());
  std::string why;
  const auto schedule = make_schedule(source, why);
  if (!schedule || !has_one_pass(*schedule)) return result;
  // What the code reads: one element of a row, where the source has a sum over the row that picks it.
  const Kernel& kernel = schedule->kernel;
  const std::vector<DimSet> domains = value_domains(kernel);
  const std::vector<bool> is_late = follow_from_reductions(kernel);
  for (size_t output = 0; output < result.size(); ++output) {
    const KernelStore* const store = only_store(kernel, static_cast<int32_t>(output), domains);
    if (store == nullptr || is_late[store->value]) continue;
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
