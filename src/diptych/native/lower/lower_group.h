// A group of ATen nodes becomes a kernel.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// Whether kernels have what a node does, so that it may be part of a group.
bool is_lowered_to_kernels(const Graph& graph, const Node& node);

/// Lowers the body of a group. Kernel inputs are the graph's inputs in order, with the strides of their metadata, and
/// outputs its outputs in order, each with the strides of its metadata; constants of one element become constants of
/// the kernel. A kernel with a check has one output more, a single b8: where that comes out true the others mean
/// nothing, and the body itself has to be run. Returns nullopt where the nodes have no common iteration space (`why`
/// then says what stood in the way). Where sizes are dynamic, the kernel is right at all of them, and `symbols` become
/// the expressions of the body's symbols that the kernel's symbols stand for.
std::optional<Kernel> lower_group(const Graph& body, std::string* why = nullptr,
                                  std::vector<SizeExpr>* symbols = nullptr);

/// Whether a kernel that lower_group() made of `body` has a check.
bool has_check(const Kernel& kernel, const Graph& body);

/// Whether the kernel of a group with this node has a check: a reduction over all points of what the node follows from.
/// Requires: is_lowered_to_kernels().
bool is_checked_by_kernels(const Graph& graph, const Node& node);
/// Whether it sums slices at the places that indices name: then one part of the kernel runs along the slices, and
/// another one along the result. Requires: is_lowered_to_kernels().
bool is_scattered_by_kernels(const Graph& graph, const Node& node);

}  // namespace diptych::detail
