// Running the backward of a traced function: what autograd's engine does, without its care for threads and devices.
#pragma once
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

#include "diptych/trace/recorder.h"

namespace diptych::detail {

/// The gradients of `wanted` given those of `roots`, in the engine's order and with its hooks, one per edge; undefined
/// where none arrives. The autograd graph is kept. `create_graph`: the backward is recorded by autograd too.
/// Requires: called inside the recorder's trace; neither list is empty.
/// Errors: whatever a node or a hook throws.
torch::autograd::variable_list walk_backward(Recorder& recorder, const torch::autograd::edge_list& roots,
                                             torch::autograd::variable_list gradients, bool create_graph,
                                             const torch::autograd::edge_list& wanted);

}  // namespace diptych::detail
