// Running the backward of a traced function: what autograd's engine does, without its work for threads and devices.
#pragma once
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <memory>
#include <unordered_set>
#include <vector>

#include "diptych/autodiff/host_reads.h"
#include "diptych/autodiff/stages.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// Which part of a trace's backward to run, and what is learned on the way.
struct WalkPart {
  const Stages& stages;
  size_t stage = 0;  ///< nodes of later stages are not run; their gradients are wanted as they arrive
  /// Receives the nodes that read values of the forward.
  std::unordered_set<const torch::autograd::Node*>& saving;
  /// Receives what user-written nodes read, by the nodes' place in the forward.
  std::map<uint64_t, std::shared_ptr<const HostReads>>& host_reads;
  /// Nodes of the autograd graph outside the trace: what arrives at them is wanted, and they are not run.
  const std::unordered_set<const torch::autograd::Node*>& outside;
};

/// Returns the gradients of `wanted` given those of `roots`, in the engine's order and with its hooks, one per edge;
/// undefined where none arrives. The autograd graph is kept. `create_graph`: the backward is recorded by autograd too.
/// Requires: called inside the recorder's trace; neither list is empty.
/// Errors: whatever a node or a hook throws.
torch::autograd::variable_list walk_backward(Recorder& recorder, const torch::autograd::edge_list& roots,
                                             torch::autograd::variable_list gradients, bool create_graph,
                                             const torch::autograd::edge_list& wanted, const WalkPart& part);

}  // namespace diptych::detail
