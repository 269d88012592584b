// The order in which passes run over a captured function.
#pragma once
#include "diptych/compile/options.h"
#include "diptych/passes/partition.h"
#include "diptych/passes/simplify.h"

namespace diptych {

/// What happens to a joint graph before it is split. Forward nodes, and the numbers of their values, come out the same
/// for every backward variant of one capture.
Joint prepare_joint(Joint joint, const AotOptions& options);

/// What happens to a forward graph after the split. `mutated` are the positions of inputs whose elements the call
/// changes.
Graph finish_forward(const Graph& forward, const std::vector<size_t>& mutated, const SimplifyOptions& options = {});

/// What happens to a backward graph after the split.
Graph finish_backward(const Graph& backward, const SimplifyOptions& options = {});

}  // namespace diptych
