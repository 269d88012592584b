// Which nodes become one kernel: the greedy search.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "diptych/native/fusion/fusion_facts.h"

namespace diptych::detail {

/// Returns whether a kernel can be made of these nodes, which the rules of groups allow; the last word.
using IsKernel = std::function<bool(const std::vector<size_t>& nodes)>;

/// A value that one node makes and another one reads, which are in no group together.
struct Gap {
  size_t maker, reader;
  Value value;
  std::string why;
};

/// Returns the groups among the nodes [begin, end) of a graph, each with its nodes in order; nodes that compute and are
/// in no group are not worth one. Merging a node with those that make its operands comes first, in the graph's order,
/// and then groups that read the same value.
/// `gaps`, if not null, gets one entry for each two that are apart.
/// Requires: no node of the range writes to a value.
std::vector<std::vector<size_t>> find_groups(const FusionFacts& facts, size_t begin, size_t end,
                                             const IsKernel& is_kernel, std::vector<Gap>* gaps = nullptr);

/// The views that bodies of a group have: those that it reads of its own values, and what lazy views it reads take. In
/// order.
std::vector<size_t> inner_views(const FusionFacts& facts, const std::vector<size_t>& nodes);

}  // namespace diptych::detail
