// When two graphs are the same graph.
#pragma once
#include <string>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Whether two graphs agree in everything: names, slots, numbers of values, metadata with hints, nodes, provenance,
/// subgraphs, and the content of constants (bit for bit; only the address of their data is ignored).
bool identical(const Graph& a, const Graph& b);

/// Whether two graphs agree in everything but their names, their slots and where nodes come from.
bool same_but_origins(const Graph& a, const Graph& b);

/// Says where two graphs part that may differ in more than their origins: "%3 = aten.mul(%1, 2) in block3, and now %3 =
/// aten.mul(%1, 4)"; empty if same_but_origins().
std::string first_difference(const Graph& before, const Graph& now);

/// Whether two constants have the same metadata and the same elements, bit for bit.
bool identical_tensors(const at::Tensor& a, const at::Tensor& b);

/// The constants of a graph and of its subgraphs in the order in which code() numbers them; parse() takes them.
std::vector<at::Tensor> all_constants(const Graph& graph);

/// The bytes of a strided tensor's elements, dense and in row-major order.
std::string dense_bytes(const at::Tensor& tensor);

}  // namespace diptych::detail
