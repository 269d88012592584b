// Running a graph inside a trace, whose nodes are then recorded again.
#pragma once
#include "diptych/interpreter/program.h"

namespace diptych::detail {

/// Runs a graph's operators on tensors of the innermost trace, which levels may wrap. Nodes carry their grad mode,
/// scopes and checkpoint regions; constants become constants of the trace.
std::vector<at::Tensor> replay(const Program& program, std::vector<at::Tensor> inputs);

}  // namespace diptych::detail
