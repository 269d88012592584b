// The graphs of captured backward runs, keyed by what the runs' nodes say of themselves.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "diptych/backward/backward_trace.h"
#include "diptych/graph/size_pattern.h"
#include "diptych/interpreter/program.h"

namespace diptych::detail {

/// A captured run; `program` is null if nothing could be captured. Where sizes are dynamic, the graph has one input
/// more: a tensor without elements whose sizes are the symbols' values, then 0.
struct BackwardEntry {
  RunKey key;
  std::optional<SizePattern> pattern;  ///< of the key's sizes, if some are dynamic
  std::vector<std::string> names;      ///< of the nodes, in order
  std::vector<bool> stays_eager;       ///< which of them can't be replayed
  HookMode hooks = HookMode::kAll;     ///< which hooks may be nodes
  BackwardTrace trace;
  Graph general;                         ///< the traced graph, before any pass, if some sizes are dynamic
  std::map<SymbolValues, bool> checked;  ///< sizes at which a trace was compared with `general`, and whether it agreed
  std::shared_ptr<const Program> program;
  std::shared_ptr<const Executable> executable;  ///< of a backend, in the program's place; null for the interpreter
};

/// Threads: any.
class BackwardCache {
 public:
  static BackwardCache& instance();

  struct Miss {
    std::string kind;
    std::string reason;
  };
  struct Found {
    std::shared_ptr<const BackwardEntry> entry;
    SymbolValues symbols{};    ///< if sizes are dynamic
    std::optional<Miss> miss;  ///< if a capture was made, or tried, for this run
    bool was_traced = false;   ///< if a trace showed that an entry is right for sizes that are new to it
  };
  /// Returns the entry of a run, captured now if there is none. Errors: LostNode; what the run's ending throws;
  /// UserError of the backend.
  Found find(const std::vector<RunCall>& calls, RunContents& contents);
  /// The most recently used first.
  std::vector<std::shared_ptr<const BackwardEntry>> entries();
  void clear();

 private:
  using Entry = std::shared_ptr<BackwardEntry>;
  std::optional<Found> find_known(size_t hash, const std::vector<RunCall>& calls, const RunKey& key);
  /// Returns an entry with dynamic sizes that a trace at this run's sizes shows to be right for them.
  std::optional<Found> find_by_trace(size_t hash, const std::vector<RunCall>& calls, RunContents& contents);
  Found used(std::list<Entry>::iterator place, const SymbolValues& symbols);
  static std::shared_ptr<BackwardEntry> capture(const std::vector<RunCall>& calls, RunContents& contents,
                                                HookMode hooks);
  /// Returns whether the hooks of a run with this key were others too often.
  bool hooks_change(size_t hash, const RunKey& key) const;
  /// Makes a graph for the sizes of this run and of the entries that have its structure; null if there is none.
  std::shared_ptr<BackwardEntry> generalize(size_t hash, const std::vector<RunCall>& calls, RunContents& contents,
                                            HookMode hooks);
  std::vector<Entry> of_structure(size_t hash, const RunKey& key) const;
  void add(size_t hash, Entry entry);
  Miss explain(const std::vector<RunCall>& calls, const RunKey& key) const;

  static constexpr size_t kMostEntries = 256;
  static constexpr size_t kMostFailures = 3;
  static constexpr size_t kMostHooks = 3;
  std::mutex mutex_;
  std::list<Entry> entries_;  ///< the most recently used first
  std::unordered_multimap<size_t, std::list<Entry>::iterator> by_structure_;
  std::unordered_map<size_t, size_t> failures_;  ///< by structure, how many times no graph for several sizes was found
};

}  // namespace diptych::detail
