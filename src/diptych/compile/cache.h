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

#include "diptych/compile/cache_stats.h"
#include "diptych/compile/compiled_function.h"
#include "diptych/compile/sized_functions.h"
#include "diptych/compile/value_path.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// A list of captures, tried most recently added first. Threads: any number at once.
class Cache {
 public:
  using Tensors = c10::SmallVector<const at::Tensor*, 16>;

  struct Entry {
    TreeSpec spec;
    GlobalState state;
    TensorGuards guards;                                    ///< of the arguments, then the free variables
    std::shared_ptr<const CompiledFunction> code;           ///< null if no graph can be made: then `original` says why
    std::shared_ptr<const SizedFunctions> sized = nullptr;  ///< what `code` is made from where sizes are dynamic
    std::shared_ptr<const ValuePath> path = nullptr;        ///< the values that `code` holds for; null for all
    /// The caller's result, whose tensors each call fills in, and its type.
    std::shared_ptr<const void> result_example;
    const std::type_info* result_type = nullptr;
    /// If sizes are dynamic: the sizes at which a trace was compared with the graphs, and whether they agreed. Only
    /// those that agreed are served. Nullopt if all sizes that pass the guards are served.
    std::optional<std::map<SymbolValues, bool>> checked = {};
    mutable std::atomic<uint64_t> last_used{0};
    mutable std::atomic<uint64_t> num_served{0};  ///< calls, as far as they are counted: see check_constants()
    /// Why calls of this kind run the function itself instead of `code`; empty if they run `code`.
    std::string original;
    /// Whether the first such call runs `code` after all, because the capture has already done what the function does.
    mutable std::atomic<bool> is_done{false};
    /// The same number as that of other entries of the cache whose spec and type of the result are the same.
    uint64_t structure = 0;

    bool is_right_at(const SymbolValues& sizes) const {
      const auto known = checked->find(sizes);
      return known != checked->end() && known->second;
    }
  };

  Cache(std::string name, size_t limit) : name_(std::move(name)), limit_(limit) {}

  /// Returns the entry that fits this call, or null; one that runs the function itself only if no capture fits.
  /// `flatten(entry, tensors)` appends the call's tensors and returns
  /// true if the call has the structure of the entry's spec; it is called once for entries of the same structure that
  /// follow each other. `handed_on`, if given, is set to what questions have found on the way to the entry: see
  /// CompiledFunction::call().
  template <class Flatten>
  std::shared_ptr<const Entry> find(const Flatten& flatten, Tensors& tensors,
                                    std::vector<at::Tensor>* handed_on = nullptr) {
    const GlobalState state = GlobalState::current();
    std::shared_lock<std::shared_mutex> lock(mutex_);
    Candidates on_paths;
    std::shared_ptr<const Entry> original;
    uint64_t structure = 0;
    bool has_structure = false;
    for (const auto& entry : entries_) {
      if (!(entry->state == state)) continue;
      if (std::exchange(structure, entry->structure) != entry->structure) {
        tensors.clear();
        has_structure = flatten(*entry, tensors);
      }
      if (!has_structure) continue;
      if (!entry->original.empty()) {
        if (!original) original = entry;
        continue;
      }
      const size_t num_arguments = tensors.size();
      entry->code->captured().append_free_variables(tensors);
      SymbolValues sizes{};
      const bool holds = entry->guards.check(tensors, &sizes) && (!entry->checked || entry->is_right_at(sizes));
      if (holds && entry->path) on_paths.emplace_back(entry, tensors);
      tensors.resize(num_arguments);
      if (!holds || entry->path) continue;
      count_hit(*entry);
      return entry;
    }
    lock.unlock();
    if (auto entry = on_paths.empty() ? nullptr : find_on_path(on_paths, tensors, handed_on)) return entry;
    return original;
  }

  /// A call that find() has no entry for. `tensors` are the addresses of `arguments`; `has_same_result` tells whether
  /// the result of the last capture holds the same constants as the entry's result.
  struct Miss {
    const TreeSpec& spec;
    const std::vector<at::Tensor>& arguments;
    const Tensors& tensors;
    const CaptureAt& capture;
    std::function<bool(const Entry&)> has_same_result;
  };
  /// Whether there are dynamic entries whose guards hold at sizes at which they were not yet compared with a trace.
  bool has_unchecked(const Miss& miss) const { return !unchecked_entries(miss).empty(); }
  /// Finds a dynamic entry whose guards hold and that a trace of the function shows to be right at this call's sizes;
  /// null if there is none. Counts a hit. Throws what `capture` throws.
  std::shared_ptr<const Entry> find_by_trace(const Miss& miss);
  /// Makes an entry without inserting it: a dynamic one if the options say so and an entry that differs only in sizes
  /// shows how. Counts a miss and records why it was one. Throws what `capture` throws.
  std::shared_ptr<Entry> make(const Miss& miss, const AotOptions& options);
  /// Returns the guards of a capture: those of its arguments and its free variables.
  static TensorGuards guards_of(const CapturedFunction& code, Tensors tensors);
  /// Returns why a call on these arguments must run the function itself, because of them or of a free variable of an
  /// earlier capture; nullopt if it need not. Called when no entry fits.
  std::optional<std::string> why_eager(const Flattened& arguments) const;
  /// Counts a call that ran the function itself, for the reason `why`.
  void count_original(const std::string& why);
  /// Adds a capture, whose spec and type of the result are final, in front; beyond the limit, discards the entry that
  /// was used longest ago. Warns of the first entry that stands for too many paths.
  void insert(std::shared_ptr<Entry> entry);
  /// Makes calls of the kind of `entry`, which is not yet inserted, run the function itself: a graph would not do
  /// `what` the function does. After several such captures in a row, all later calls run the function itself.
  void run_original(Entry& entry, const std::string& what, bool is_undone);
  /// Adds an entry for calls of which no graph can be made, for the reason `why`: they run the function itself. Warns,
  /// the first time.
  void insert_refused(TreeSpec spec, const GlobalState& state, const std::type_info& result_type,
                      const std::string& why);
  /// Records that a capture was given up because no graph can stand for the call; counts towards the same limit.
  void count_given_up();
  /// Whether calls are no longer captured.
  bool is_always_original() const { return is_always_original_.load(std::memory_order_relaxed); }
  /// Counts a call inside of a transform, which has a capture of its own.
  void count_transformed_hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  void count_transformed_miss();
  void count_original() { originals_.fetch_add(1, std::memory_order_relaxed); }
  CacheStats stats() const;
  std::vector<std::shared_ptr<const Entry>> entries() const;
  void clear();

 private:
  /// Entries whose guards hold, with the tensors that these check.
  using Candidates = std::vector<std::pair<std::shared_ptr<Entry>, Tensors>>;

  void count_hit(const Entry& entry) {
    entry.last_used.store(++clock_, std::memory_order_relaxed);
    hits_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Returns the entry whose path the call takes; null if none does. Sets `tensors` to those of the call.
  std::shared_ptr<const Entry> find_on_path(const Candidates& candidates, Tensors& tensors,
                                            std::vector<at::Tensor>* handed_on);
  /// The entries that differ from a call, whose tensors are given, at most in values.
  std::vector<std::shared_ptr<const Entry>> siblings(const TreeSpec& spec, const Tensors& tensors) const;
  /// The entries that differ from a call at most in sizes, and in what values lead to.
  std::vector<std::shared_ptr<const Entry>> sized_otherwise(const Miss& miss) const;
  std::shared_ptr<const ValuePath> path_of(const CapturedFunction& captured,
                                           const std::vector<ValueQuestion>& questions, const Miss& miss,
                                           size_t& num_siblings) const;
  std::shared_ptr<Entry> entry_of(std::shared_ptr<const GraphSource> source,
                                  const std::vector<ValueQuestion>& questions, TensorGuards guards,
                                  const GlobalState& state, const Miss& miss, const AotOptions& options);
  void count_without_graph();
  void record_miss(const TreeSpec& spec, const Tensors& tensors);
  std::string why_miss(const TreeSpec& spec, const Tensors& tensors) const;
  std::shared_ptr<Entry> make_dynamic(const Miss& miss, const AotOptions& options);
  std::vector<std::pair<std::shared_ptr<Entry>, SymbolValues>> unchecked_entries(const Miss& miss) const;

  std::string name_;
  size_t limit_;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<Entry>> entries_;
  std::atomic<uint64_t> clock_{0};
  uint64_t num_structures_ = 0;
  std::atomic<size_t> hits_{0};
  size_t misses_ = 0;
  size_t evictions_ = 0;
  size_t failed_patterns_ = 0;  ///< failures in a row to make changing sizes dynamic
  size_t size_checks_ = 0;
  std::string last_miss_;
  std::string missed_value_;  ///< why the last call that found its guards to hold had no path
  std::atomic<size_t> originals_{0};
  size_t refusals_ = 0;
  size_t original_entries_ = 0;  ///< captures in a row that no graph can stand for
  std::atomic<bool> is_always_original_{false};
  std::string last_original_;
  std::map<std::string, size_t> original_reasons_;
};

}  // namespace diptych::detail
