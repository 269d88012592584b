// What was made of bodies of nodes, found by the body.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A slot for each body, as long as the body lives, and some time longer. Bodies are told apart by address: graphs
/// share the bodies that they copy. Threads: any.
template <class Slot>
class BodyTable {
 public:
  std::shared_ptr<Slot> find(const std::shared_ptr<const Graph>& body) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= next_sweep_) sweep();
    Entry& entry = entries_[body.get()];
    // Another body may have lived at this address before.
    if (entry.slot == nullptr || entry.body.expired()) entry = {body, std::make_shared<Slot>()};
    return entry.slot;
  }

 private:
  struct Entry {
    std::weak_ptr<const Graph> body;
    std::shared_ptr<Slot> slot;
  };

  void sweep() {
    std::erase_if(entries_, [](const auto& entry) { return entry.second.body.expired(); });
    next_sweep_ = 2 * entries_.size() + 64;
  }

  std::mutex mutex_;
  std::unordered_map<const Graph*, Entry> entries_;
  size_t next_sweep_ = 64;
};

}  // namespace diptych::detail
