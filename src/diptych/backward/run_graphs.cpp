#include "diptych/backward/run_graphs.h"

#include <algorithm>

#include "diptych/backward/backward_cache.h"

namespace diptych::detail {

void RunGraphs::add(const std::shared_ptr<const BackwardEntry>& entry) {
  const auto is_entry = [&](const auto& known) { return !known.owner_before(entry) && !entry.owner_before(known); };
  auto place = std::find_if(entries_.begin(), entries_.end(), is_entry);
  if (place == entries_.end()) {
    std::erase_if(entries_, [](const auto& known) { return known.expired(); });
    place = entries_.insert(entries_.end(), entry);
  }
  std::rotate(entries_.begin(), place, place + 1);
}

std::vector<NativeGraph> RunGraphs::native_graphs() const {
  std::vector<NativeGraph> graphs;
  for (const auto& known : entries_) {
    if (const auto entry = known.lock()) add_native_graphs(*entry, graphs);
  }
  return graphs;
}

void add_native_graphs(const BackwardEntry& entry, std::vector<NativeGraph>& graphs) {
  if (entry.executable != nullptr) add_native_graphs("backward", entry.executable, graphs);
}

}  // namespace diptych::detail
