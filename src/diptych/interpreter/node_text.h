// One node as a line of text, for error messages, profiles and reports.
#pragma once
#include <string>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// "%7 : f32[2,3] = aten.mm(%5, %6)  # block0"
std::string node_text(const Graph& graph, const Node& node);
/// "%7 = aten.mm"
std::string node_title(const Node& node);

}  // namespace diptych::detail
