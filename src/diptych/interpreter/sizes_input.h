// The input through which a graph with dynamic sizes learns the sizes that none of its tensors has.
#pragma once
#include "diptych/graph/graph.h"
#include "diptych/graph/size_pattern.h"

namespace diptych::detail {

/// Returns the metadata of a tensor without elements whose sizes are the symbols, then 0. `hints`: the symbols' values.
TensorMeta sizes_meta(size_t num_symbols, const SymbolValues& hints);
/// Returns such a tensor for these values.
at::Tensor sizes_tensor(size_t num_symbols, const SymbolValues& symbols);

}  // namespace diptych::detail
