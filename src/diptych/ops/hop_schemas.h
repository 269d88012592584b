// The higher-order operators that are known by name. The rooms above meet these operators by schema only; the rules
// that give one its meaning are in hops/.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/op.h"

namespace diptych {

/// Finds a higher-order operator by its name without the "hop." prefix, or returns null. Threads: any.
const HopSchema* find_hop_schema(std::string_view name);

/// Adds a schema; the room that gives the operator its rules calls this once from its register function, before any
/// graph that holds the operator is parsed. The schema is never freed. Returns the one to make Ops with: the schema
/// known by that name if it is known already.
/// Errors: UserError if another schema has the name; as HopSchema's. Threads: any.
const HopSchema* add_hop_schema(std::string_view declaration, std::vector<std::string> bodies);

}  // namespace diptych
