// What a kernel moves and computes, counted.
#pragma once
#include "diptych/graph/graph.h"
#include "diptych/native/kernel/kernel.h"
#include "diptych/native/native_graph.h"

namespace diptych::detail {

/// Counts the elements that a kernel reads and writes, each once however often it occurs, and its operations on floats.
/// Of elements that are picked by a tensor of indices, no more than there are points and no more than the input has.
/// Requires: the kernel of lower_group(body).
KernelWork work_of(const Kernel& kernel, const Graph& body);

}  // namespace diptych::detail
