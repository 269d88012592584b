// Names and layouts of the higher-order operators. The rooms above meet these operators by schema only; the rules that
// give one its meaning live in hops/.
#pragma once
#include <string_view>

#include "diptych/graph/op.h"

namespace diptych {

/// Finds a higher-order operator by its name without the "hop." prefix, or returns null. Threads: any.
const HopSchema* find_hop_schema(std::string_view name);

/// Adds a schema; the room that gives the operator its rules calls this once from its register function, before any
/// graph that holds the operator is parsed. The schema is never freed. Returns the one to make Ops with: the schema
/// known by that name if it is known already.
/// Errors: UserError if another schema has the name and a different number of subgraphs. Threads: any.
const HopSchema* add_hop_schema(HopSchema schema);

}  // namespace diptych
