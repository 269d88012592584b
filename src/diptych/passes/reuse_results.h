// Takes results that an earlier graph has computed from the same inputs as inputs, instead of computing them again.
//
//   graph forward(%0 x : f32[2,2])        with  graph earlier(%0 x : f32[2,2])
//     %1 : f32[2,2] = aten.mm(%0, %0)             %1 : f32[2,2] = aten.mm(%0, %0)
//     %2 : f32[2,2] = aten.sin(%1)                return (%1 handed_on)
//     return (%2 y)
// ==>
//   graph forward(%0 x : f32[2,2], %1 handed_on.0 : f32[2,2])
//     %2 : f32[2,2] = aten.sin(%1)
//     return (%2 y)
#pragma once
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// A graph that takes results of an earlier one.
struct ReusingGraph {
  Graph graph;                ///< its further inputs follow those that it had
  std::vector<size_t> taken;  ///< per further input: the output of the earlier graph that it stands for
};

/// Returns `graph` with outputs of `earlier` in place of nodes that compute the same. The inputs of `earlier` are the
/// first ones of `graph`: free variables that a backward reads come later. An output stands for one node at most, since
/// a tensor that leaves `graph` is the caller's own. Requires: graphs that verify; what they draw differs. Ensures:
/// slots are kept, nodes with an effect, too.
ReusingGraph reuse_results(const Graph& graph, const Graph& earlier);

}  // namespace diptych::detail
