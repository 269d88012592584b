// What a block's values are made from, how long they live, and which lie in an output from the beginning.
#pragma once
#include <vector>

#include "diptych/native/plan/block_maker.h"

namespace diptych::detail {

/// Facts about the values of a graph that a block is made of.
struct BlockValues {
  BlockValues(const Graph& graph, const std::vector<BlockResult>& results);

  std::vector<Value> roots;               ///< by value: whose memory it is, itself if it is no view
  std::vector<int32_t> outputs;           ///< by root: the output that it lies in, or -1
  std::vector<std::vector<Value>> dying;  ///< by node: the roots that live no longer than it
};

/// Whether a node's results are views whose places can be known: its elements are those of its first operand.
bool is_planned_view(const Graph& graph, const Node& node);

/// The places of a view's results. `base`: the place of what is viewed.
std::vector<Place> view_places(const Graph& graph, const Node& node, const Place& base);

}  // namespace diptych::detail
