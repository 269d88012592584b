// What fusion made of a graph and why not more, for people.
#pragma once
#include <string>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Groups the nodes of a graph once more, with a record, and writes it down. Requires: a graph that NativeBackend
/// prepared.
std::string explain_fusion(const Graph& graph);

}  // namespace diptych::detail
