// When each value of a graph is used for the last time, and which register holds it until then.
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Last uses, by node. Graph outputs are never in `dying`.
struct Lifetimes {
  /// Inputs that nothing uses, freed before the first node.
  std::vector<Value> unused_inputs;
  /// For each node, the values that it reads for the last time, each once, in operand order.
  std::vector<std::vector<Value>> dying;
  /// Whether a value is read by a later node or is a graph output; by value id.
  std::vector<bool> is_used;
};

Lifetimes find_lifetimes(const Graph& graph);

/// Hands out register numbers; a released one is handed out again, last released first, while it is warm in cache.
class RegisterPool {
 public:
  int32_t take();
  void release(int32_t index) { free_.push_back(index); }
  size_t size() const { return static_cast<size_t>(next_); }

 private:
  int32_t next_ = 0;
  std::vector<int32_t> free_;
};

}  // namespace diptych::detail
