// Graphs in the operators that kernels have.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Whether a body becomes a kernel: it lowers, and code can be made of it.
bool becomes_kernel(const Graph& body);

/// Returns the graph with composite operators (activations, norms, softmax, losses, dropout) as arithmetic, where
/// kernels take all of that arithmetic; others keep LibTorch's own kernels. Whether a node is kept depends on it alone.
/// Slots are kept. Random numbers are drawn as before.
Graph with_composites_in_parts(const Graph& graph);

/// Does the same, in the bodies of higher-order nodes, too. Then what several composites compute alike is merged.
Graph in_kernel_operators(const Graph& graph);

}  // namespace diptych::detail
