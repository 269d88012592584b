// The library's higher-order operators by name.
#pragma once
#include <string_view>

#include "diptych/graph/op.h"

namespace diptych {

/// Finds a higher-order operator, the library's own or one registered so far, by its name without "hop."; returns null
/// if there is none. It can be passed to parse(), from_json() and load() as `find_hop`. Threads: any.
const HopSchema* find_hop(std::string_view name);

}  // namespace diptych
