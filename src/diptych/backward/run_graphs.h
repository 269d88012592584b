// Which graphs captured runs have had, to be read.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/native/native_graph.h"

namespace diptych::detail {

struct BackwardEntry;

/// The graphs of some runs, as long as they are cached. Threads: one at a time.
class RunGraphs {
 public:
  /// Adds the graph of a run; one that is known becomes the most recent.
  void add(const std::shared_ptr<const BackwardEntry>& entry);
  /// What backend "native" made of them, the most recent first.
  std::vector<NativeGraph> native_graphs() const;

 private:
  std::vector<std::weak_ptr<const BackwardEntry>> entries_;
};

/// Adds what backend "native" made of one graph: a "backward" for each stretch between code that runs live.
void add_native_graphs(const BackwardEntry& entry, std::vector<NativeGraph>& graphs);

}  // namespace diptych::detail
