// The states of the generators that a graph draws from.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Returns the generators that the random nodes of a graph draw from, each once, in order of first use.
std::vector<at::Generator> generators_of(const Graph& graph);

/// Returns the present states of generators_of(graph). Takes the generators' locks.
std::vector<at::Tensor> save_generator_states(const Graph& graph);

/// Puts generators into earlier states, unless `states` is empty, and restores their present states when it is
/// destroyed. No GeneratorWatch notices.
class Rewind {
 public:
  explicit Rewind(std::vector<at::Generator> generators, const std::vector<at::Tensor>& states = {});
  ~Rewind();
  Rewind(const Rewind&) = delete;
  Rewind& operator=(const Rewind&) = delete;

 private:
  std::vector<at::Generator> generators_;
  std::vector<at::Tensor> now_;
};

/// Returns the indices of the random nodes of a graph's forward.
std::vector<size_t> random_nodes(const Graph& graph);

}  // namespace diptych::detail
