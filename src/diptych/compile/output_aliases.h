// Finds what the outputs of a forward graph alias.
#pragma once
#include <vector>

#include "diptych/tree/signature.h"

namespace diptych::detail {

/// Returns which of the first `num_outputs` outputs are, or share the storage of, an input or an earlier output.
std::vector<OutputAlias> find_aliases(const Graph& forward, size_t num_outputs);

}  // namespace diptych::detail
