// Graphs in the operators that kernels have.
#pragma once
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Whether a body becomes a kernel: it lowers, and code can be made of it.
bool becomes_kernel(const Graph& body);

/// Returns the graph, and the bodies of its higher-order nodes, with composite operators (activations, norms, softmax,
/// losses, dropout) as arithmetic, where kernels take all of that arithmetic; others keep LibTorch's own kernels. Then
/// what several composites compute alike is merged. Slots are kept. Random numbers are drawn as before.
Graph in_kernel_operators(const Graph& graph);

}  // namespace diptych::detail
