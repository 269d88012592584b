// The higher-order operators that are known by name. Rooms below hops/ know an operator by its schema only; hops/ has
// the rules for what it does.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/op.h"

namespace diptych::detail {

/// Finds a higher-order operator by its name without the "hop." prefix, or returns null. Threads: any.
const HopSchema* find_hop_schema(std::string_view name);

/// Adds a schema; the room that gives the operator its rules calls this once from its register function, before any
/// graph that holds the operator is parsed. The schema is never freed. Returns the schema to make Ops with: the one
/// that is known already, if it is equal.
/// Errors: UserError if a different schema has the name, and the errors of HopSchema. Threads: any.
const HopSchema* add_hop_schema(std::string_view declaration, std::vector<std::string> bodies);

}  // namespace diptych::detail
