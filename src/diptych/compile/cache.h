// The captures of one function, keyed by guards.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "diptych/compile/compiled_function.h"
#include "diptych/compile/sized_functions.h"
#include "diptych/tree/flatten.h"

namespace diptych {

/// What a cache has done so far.
struct CacheStats {
  size_t hits = 0;
  size_t misses = 0;
  size_t evictions = 0;
  size_t entries = 0;
  size_t size_checks = 0;     ///< hits that were traced, as a capture for many sizes met these for the first time
  size_t originals = 0;       ///< calls that ran the function itself, as no graph stands for them
  std::string last_original;  ///< why the last of them did; empty if none did
  size_t checks = 0;          ///< calls that were compared with the original function
  std::string last_miss;      ///< why the last miss was one, against the nearest entry; empty for a first call
  /// How many calls ran the function itself for which reason, where it was a mode or a transform.
  std::map<std::string, size_t> original_reasons = {};
};

/// A list of captures, tried most recently used first. Threads: any number at once.
class Cache {
 public:
  using Tensors = c10::SmallVector<const at::Tensor*, 16>;

  struct Entry {
    TreeSpec spec;
    GlobalState state;
    TensorGuards guards;  ///< of the arguments, then the free variables
    std::shared_ptr<const CompiledFunction> code;
    std::shared_ptr<const SizedFunctions> sized = nullptr;  ///< what `code` is made from where sizes are dynamic
    /// The caller's result without its tensors, to be filled, and its type.
    std::shared_ptr<const void> result_example;
    const std::type_info* result_type = nullptr;
    /// Where sizes are dynamic: those at which a trace was compared with the graphs, and whether they agree. No other
    /// is served. None if all that the guards let pass are.
    std::optional<std::map<SymbolValues, bool>> checked = {};
    mutable std::atomic<uint64_t> last_used{0};
    /// Why calls of this kind run the function itself and not `code`; empty where they run that.
    std::string original;
    /// Whether the first of them runs `code` all the same, as what the function did while it was captured is done.
    mutable std::atomic<bool> is_done{false};

    bool is_right_at(const SymbolValues& sizes) const {
      const auto known = checked->find(sizes);
      return known != checked->end() && known->second;
    }
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
      if (!entry->original.empty()) return entry;
      const size_t num_arguments = tensors.size();
      entry->code->captured().append_free_variables(tensors);
      SymbolValues sizes{};
      const bool holds = entry->guards.check(tensors, &sizes) && (!entry->checked || entry->is_right_at(sizes));
      tensors.resize(num_arguments);
      if (!holds) continue;
      entry->last_used.store(++clock_, std::memory_order_relaxed);
      hits_.fetch_add(1, std::memory_order_relaxed);
      return entry;
    }
    return nullptr;
  }

  /// A call that find() has no entry for. `tensors` are the addresses of `arguments`; `has_same_result` tells whether
  /// the result of the last capture holds the constants that the entry's does.
  struct Miss {
    const TreeSpec& spec;
    const std::vector<at::Tensor>& arguments;
    const Tensors& tensors;
    const CaptureAt& capture;
    std::function<bool(const Entry&)> has_same_result;
  };
  /// Whether there are entries with dynamic sizes whose guards hold, and which were not compared with a trace there.
  bool has_unchecked(const Miss& miss) const { return !unchecked_entries(miss).empty(); }
  /// An entry with dynamic sizes whose guards hold, and which is right at this call's sizes as a trace of the function
  /// shows; null if there is none. Counts a hit. Throws what `capture` throws.
  std::shared_ptr<const Entry> find_by_trace(const Miss& miss);
  /// A new entry, not yet inserted: for many sizes if the options say so and an entry that differs in sizes alone shows
  /// how; counts a miss and says why it was one. Throws what `capture` throws.
  std::shared_ptr<Entry> make(const Miss& miss, const AotOptions& options);
  /// The guards of a capture: of its arguments and its free variables.
  static TensorGuards guards_of(const CapturedFunction& code, Tensors tensors);
  /// Why a call on these arguments is for the function itself, or nothing: for them, or for what an earlier capture has
  /// lifted. Asked where no entry fits.
  std::optional<std::string> why_eager(const Flattened& arguments) const;
  /// Counts a call that the function itself runs.
  void count_original(const std::string& why);
  /// Adds a capture in front; beyond the limit, the entry that was used longest ago goes.
  void insert(std::shared_ptr<Entry> entry);
  /// Says that calls of the kind of `entry`, not yet inserted, run the function itself: a graph would not do `what` it
  /// does. Where that happens again and again, all calls do so from then on.
  void run_original(Entry& entry, const std::string& what, bool is_undone);
  /// Says that a capture was given up, for what no graph stands for, and the function itself runs. The same holds.
  void count_given_up();
  /// Whether no call is captured any more.
  bool is_always_original() const { return is_always_original_.load(std::memory_order_relaxed); }
  void count_original() { originals_.fetch_add(1, std::memory_order_relaxed); }
  CacheStats stats() const;
  std::vector<std::shared_ptr<const Entry>> entries() const;
  void clear();

 private:
  void count_without_graph();
  void record_miss(const TreeSpec& spec, const Tensors& tensors);
  std::string why_miss(const TreeSpec& spec, const Tensors& tensors) const;
  std::shared_ptr<Entry> make_dynamic(const Miss& miss, SizeTrust trust);
  std::vector<std::pair<std::shared_ptr<Entry>, SymbolValues>> unchecked_entries(const Miss& miss) const;

  std::string name_;
  size_t limit_;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::atomic<uint64_t> clock_{0};
  std::atomic<size_t> hits_{0};
  size_t misses_ = 0;
  size_t evictions_ = 0;
  size_t failed_patterns_ = 0;  ///< how often in a row sizes that changed had nothing in common
  size_t size_checks_ = 0;
  std::string last_miss_;
  std::atomic<size_t> originals_{0};
  size_t original_entries_ = 0;  ///< in a row
  std::atomic<bool> is_always_original_{false};
  std::string last_original_;
  std::map<std::string, size_t> original_reasons_;
};

}  // namespace diptych
