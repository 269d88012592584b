// Results that share memory with one another or with an input, as eager's do.
#pragma once
#include <functional>
#include <memory>

#include "diptych/backend/backend.h"

namespace diptych::detail {

/// Note [Shared results]
/// A program returns each result in memory of its own. In eager a view shares the memory of its base: a write to one
/// shows in the other, and autograd knows both. So where results share memory, the program returns the base alone, and
/// the interpreter takes the views of it, which compute nothing; views of inputs need no program at all.

/// Compiles a graph by `compile`, which need not know of views among the results.
/// Returns what `compile` returns if no result shares memory.
std::shared_ptr<const Executable> compile_shared_results(
    const Graph& graph, const std::function<std::shared_ptr<const Executable>(const Graph&)>& compile);

}  // namespace diptych::detail
