// Makes one graph for many sizes from graphs of the same function traced at several of them.
//
//   graph f(%0 x : f32[4,3])                graph f(%0 x : f32[7,3])
//     %1 : f32[12] = aten.view(%0, [12])      %1 : f32[21] = aten.view(%0, [21])
//     return (%1 y)                           return (%1 y)
// ==>
//   graph f(%0 x : f32[s0,3])
//     %1 : f32[3*s0] = aten.view(%0, [3*s0])
//     return (%1 y)
#pragma once
#include <c10/util/ArrayRef.h>

#include <optional>
#include <string>

#include "diptych/graph/graph.h"
#include "diptych/graph/size_fit.h"

namespace diptych::detail {

/// Returns the graph that is `graphs[i]` when its symbols are `points[i]`. The graphs must be alike in everything but
/// numbers, whose expressions SizeFitter finds. The first point's values are the hints. None if there is no such graph;
/// `why`, if given, then says what differs, in a few words. Requires: num_fit_points(num_symbols) graphs at least, or
/// nothing is checked.
std::optional<Graph> unify_sizes(c10::ArrayRef<Graph> graphs, c10::ArrayRef<SymbolValues> points, size_t num_symbols,
                                 std::string* why = nullptr);

/// Whether two graphs are alike in everything but numbers.
bool same_structure(const Graph& a, const Graph& b);

}  // namespace diptych::detail
