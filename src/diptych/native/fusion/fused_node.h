// hop.fused: a group of nodes that one kernel computes. The nodes are its body, so that whoever has no kernel for it
// can still run it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/interpreter/hop_rules.h"

namespace diptych::detail {

/// The schema of hop.fused, with the interpreter's rule registered: it runs the kernel of the body, and the body itself
/// by the interpreter where there is no kernel, or where a call's tensors are not what the kernel was made for (of
/// another dtype or other sizes, not on the CPU, lazily negated, undefined). With checks_kernels() a kernel's results
/// are compared with the interpreter's; see kernel_check.h.
const HopSchema& fused_schema();

/// That rule. call/fused_rule.cpp defines it, which knows how kernels are called.
HopKernel fused_rule(const Node& node);

bool is_fused(const Node& node);

/// Whether the bodies of a node may hold hop.fused: those of a higher-order operator, but for hop.fused itself and
/// hop.vjp, whose body autograd differentiates while it runs, operator by operator.
bool may_fuse_bodies(const Node& node);

/// Makes a node without outputs. `inputs`: one per input of the body.
Node make_fused_node(std::shared_ptr<const Graph> body, const ValueList& inputs);

}  // namespace diptych::detail
