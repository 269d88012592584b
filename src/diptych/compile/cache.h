// The captures of one function, keyed by guards.
#pragma once
#include <atomic>
#include <memory>
#include <shared_mutex>
#include <string>
#include <typeinfo>
#include <vector>

#include "diptych/compile/sized_functions.h"
#include "diptych/tree/spec.h"

namespace diptych {

/// What a cache has done so far.
struct CacheStats {
  size_t hits = 0;
  size_t misses = 0;
  size_t evictions = 0;
  size_t entries = 0;
  std::string last_miss;  ///< why the last miss was one, against the nearest entry; empty for a first call
};

/// A list of captures, tried most recently used first. Threads: any number at once.
class Cache {
 public:
  using Tensors = c10::SmallVector<const at::Tensor*, 16>;

  struct Entry {
    TreeSpec spec;
    GlobalState state;
    TensorGuards guards;  ///< of the arguments, then the free variables
    std::shared_ptr<CompiledFunction> code;
    /// The caller's result without its tensors, to be filled, and its type.
    std::shared_ptr<const void> result_example;
    const std::type_info* result_type = nullptr;
    mutable std::atomic<uint64_t> last_used{0};
  };

  Cache(std::string name, size_t limit) : name_(std::move(name)), limit_(limit) {}

  /// The entry that fits this call, or null. `flatten(entry, tensors)` appends the call's tensors and returns true if
  /// the call has the structure of the entry's spec; it is asked once per entry that is tried.
  template <class Flatten>
  std::shared_ptr<const Entry> find(const Flatten& flatten, Tensors& tensors) {
    const GlobalState state = GlobalState::current();
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    for (const auto& entry : entries_) {
      tensors.clear();
      if (!(entry->state == state) || !flatten(*entry, tensors)) continue;
      const size_t num_arguments = tensors.size();
      entry->code->append_free_variables(tensors);
      const bool holds = entry->guards.check(tensors);
      tensors.resize(num_arguments);
      if (!holds) continue;
      entry->last_used.store(++clock_, std::memory_order_relaxed);
      hits_.fetch_add(1, std::memory_order_relaxed);
      return entry;
    }
    return nullptr;
  }

  /// A new entry, not yet inserted, for a call that no entry fits: for all sizes of a range if `dynamic` and an entry
  /// that differs in sizes alone shows how; counts a miss and says why it was one. `tensors` are the addresses of
  /// `arguments`. Throws what `capture` throws.
  std::shared_ptr<Entry> make(TreeSpec spec, const std::vector<at::Tensor>& arguments, const Tensors& tensors,
                              const CaptureAt& capture, bool dynamic);
  /// The guards of a capture: of its arguments and its free variables.
  static TensorGuards guards_of(const CompiledFunction& code, Tensors tensors);
  /// Adds a capture in front; beyond the limit, the entry that was used longest ago goes.
  void insert(std::shared_ptr<Entry> entry);
  CacheStats stats() const;
  std::vector<std::shared_ptr<const Entry>> entries() const;
  void clear();

 private:
  void record_miss(const TreeSpec& spec, const Tensors& tensors);
  std::string why_miss(const TreeSpec& spec, const Tensors& tensors) const;
  std::shared_ptr<Entry> make_dynamic(const TreeSpec& spec, const std::vector<at::Tensor>& arguments,
                                      const Tensors& tensors, const CaptureAt& capture);

  std::string name_;
  size_t limit_;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::atomic<uint64_t> clock_{0};
  std::atomic<size_t> hits_{0};
  size_t misses_ = 0;
  size_t evictions_ = 0;
  size_t failed_patterns_ = 0;  ///< how often sizes that changed had nothing in common
  std::string last_miss_;
};

}  // namespace diptych
