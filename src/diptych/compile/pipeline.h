// The order in which passes run over a captured function.
#pragma once
#include "diptych/compile/options.h"
#include "diptych/passes/partition.h"

namespace diptych {

struct PipelineOptions {
  /// The graph may be differentiated again by whoever gets it, so that detach and no_grad regions must stay visible.
  bool keep_gradient_stops = false;
};

/// What happens to a joint graph before it is split. Forward nodes, and the numbers of their values, come out the same
/// for every backward variant of one capture.
Joint prepare_joint(Joint joint, const AotOptions& options);

/// What happens to a forward graph after the split. `mutated` are the positions of inputs whose elements the call
/// changes.
Graph finish_forward(const Graph& forward, const std::vector<size_t>& mutated, const PipelineOptions& options = {});

/// What happens to a backward graph after the split.
Graph finish_backward(const Graph& backward, const PipelineOptions& options = {});

}  // namespace diptych
