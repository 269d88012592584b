// A graph as a StableHLO module, which XLA and whatever else reads that format compiles.
#pragma once
#include <string>

#include "diptych/graph/graph.h"
#include "diptych/xla/stablehlo_module.h"

namespace diptych {

/// Returns the module's text. Its function `main` takes one tensor for each input slot, in order and with the slot's
/// sizes, then the graph's constants; it returns one for each output slot that is not empty. Loops, branches and
/// checkpoints of the graph are loops, branches and optimization barriers of the module. Needs no plugin.
/// Errors: UserError names the node that has no lowering or draws random numbers, or the tensor of a dtype that
/// StableHLO does not have, on another device than the CPU, or of dynamic sizes.
std::string stablehlo(const Graph& graph);

namespace detail {
/// Does the same, with the constants.
StableHloModule stablehlo_module(const Graph& graph);
}  // namespace detail

}  // namespace diptych
