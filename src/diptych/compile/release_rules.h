// Which backwards may follow one that did not retain the graph, and what they still need.
//
// Note [Released parts]: each of eager's nodes frees what it has saved when a backward has run through it, and a later
// backward through such a node is an error; one that runs through other nodes alone is not. A backward node stands for
// many of eager's, so it remembers the backwards that it has run: from which tangents, to which gradients. The rules
// say through which of eager's nodes such a backward would run, and which residuals are read by the parts that may
// still run.
#pragma once
#include <map>
#include <mutex>
#include <vector>

#include "diptych/autodiff/saving_nodes.h"
#include "diptych/passes/partition.h"

namespace diptych::detail {

/// A backward that a node runs: from which tangents of the function, to which primals and crossings.
struct BackwardRun {
  std::vector<bool> tangents;
  std::vector<bool> gradients;  ///< empty for all
  auto operator<=>(const BackwardRun&) const = default;
};

/// Threads: any.
class ReleaseRules {
 public:
  /// Requires: `joint` has been split, and `saved` are its residuals. `primals`: where derivatives of the gradients
  /// start.
  ReleaseRules(std::vector<SavingNode> nodes, const Joint& joint, const std::vector<Value>& saved,
               const std::vector<size_t>& primals);

  /// Whether eager would refuse `run` after the backwards in `released`.
  bool is_refused(const BackwardRun& run, const std::vector<BackwardRun>& released) const;
  struct Kept {
    std::vector<bool> residuals;
    std::vector<bool> primals;  ///< of those given at construction
  };
  /// Returns what the backwards that may still run read.
  Kept kept(const std::vector<BackwardRun>& released) const;

 private:
  struct Part {
    std::vector<bool> tangents;
    std::vector<bool> gradients;
    std::vector<bool> reads;  ///< residuals, then primals
  };

  std::vector<SavingNode> nodes_;
  std::vector<Part> parts_;
  size_t num_tangents_;
  size_t num_gradients_;
  size_t num_residuals_;
  size_t num_primals_;
  mutable std::mutex mutex_;
  mutable std::map<std::vector<BackwardRun>, Kept> kept_;
};

}  // namespace diptych::detail
