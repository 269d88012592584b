// The graphs of captured backward passes, by what the passes' nodes say of themselves.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "diptych/autodiff/backward_trace.h"
#include "diptych/compile/backward_capture.h"
#include "diptych/interpreter/program.h"

namespace diptych::detail {

/// A captured pass. Where nothing could be captured there is no program.
struct BackwardEntry {
  TaskKey key;
  std::vector<std::string> names;  ///< of the nodes, in order
  BackwardTrace trace;
  std::shared_ptr<const Program> program;
};

/// Threads: any.
class BackwardCache {
 public:
  static BackwardCache& instance();

  /// The entry of a task, captured now if there is none.
  std::shared_ptr<const BackwardEntry> find(const std::vector<TaskCall>& calls, TaskContents& contents,
                                            size_t num_results);
  backward_capture::Statistics statistics() const;
  void clear();

 private:
  using Entry = std::shared_ptr<const BackwardEntry>;
  Entry capture(const std::vector<TaskCall>& calls, TaskContents& contents, size_t num_results);
  std::string explain(const std::vector<TaskCall>& calls, const TaskKey& key) const;

  static constexpr size_t kMostEntries = 256;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  ///< the one used last in front
  std::unordered_multimap<size_t, std::list<Entry>::iterator> by_hash_;
  backward_capture::Statistics statistics_;
};

}  // namespace diptych::detail
