// The library's higher-order operators by name.
#pragma once
#include <string_view>

#include "diptych/graph/op.h"

namespace diptych {

/// Finds a higher-order operator by its name without "hop.", the library's own and those registered so far; null if
/// there is none. What parse(), from_json() and load() take as `find_hop`. Threads: any.
const HopSchema* find_hop(std::string_view name);

}  // namespace diptych
