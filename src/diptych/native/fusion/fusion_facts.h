// What fusion knows of a graph before it groups nodes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

// Note [Views are nobody's]
// A view costs nothing where it is read by a kernel, and nothing where it is a tensor. So groups are made of the nodes
// that compute. A view that a group reads, of a value that it makes, is copied into its body; a view that anyone else
// reads stays what it was, a node behind the group. Dependencies look through views: what reads a view depends on what
// makes the viewed value.
// A lazy view (conj, and the negative one) has other elements than its memory, which is what kernels read. So it is
// copied into bodies also where the group does not make what it shows, with the views between it and the reader.

enum class NodeRole : uint8_t {
  kComputes,  ///< may be part of a group
  kViews,     ///< a view that kernels have
  kOther,
};

/// Why kernels do not have a node; empty if they do.
std::string why_no_kernel(const Graph& graph, const Node& node);

class FusionFacts {
 public:
  explicit FusionFacts(const Graph& graph);

  const Graph& graph() const { return graph_; }
  NodeRole role(size_t node) const { return roles_[node]; }
  /// The value that `value` is a view of by views that kernels have; itself if it is none.
  Value root(Value value) const { return roots_[value.id]; }
  /// What a group that does not make root(value) takes in the place of `value`: what its lazy views are of, or itself.
  Value source(Value value) const { return sources_[value.id]; }
  /// The nodes that read a value or a view of it, views aside, in order. Requires: root(value) == value.
  const std::vector<size_t>& readers(Value value) const { return readers_[value.id]; }
  /// Whether a value, or a view of it, is an output of the graph.
  bool is_output(Value value) const { return is_output_[value.id]; }
  /// The node that makes a value; -1 for inputs and constants.
  int32_t maker(Value value) const { return graph_.info(value).node; }
  /// Whether a value is a constant that may be written into a body: of one element, and nobody writes to it.
  bool is_number(Value value) const;
  /// Whether the kernel of a reduction goes through its operand more than once, as that of a variance does. Requires: a
  /// node that computes.
  bool goes_twice(size_t node) const;

 private:
  const Graph& graph_;
  std::vector<NodeRole> roles_;
  std::vector<Value> roots_, sources_;
  std::vector<std::vector<size_t>> readers_;
  std::vector<bool> is_output_, is_written_;
  mutable std::map<std::string, bool> goes_twice_;  // by operator
};

}  // namespace diptych::detail
