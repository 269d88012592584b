// Saves what a function reads and changes besides tensors, and restores it after the function has run a second time.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The generators that a call may draw from: the CPU's default one, and those that a graph holds.
class Generators {
 public:
  explicit Generators(const Graph& graph);
  std::vector<at::Tensor> states() const;
  void set(const std::vector<at::Tensor>& states);

 private:
  std::vector<at::Generator> generators_;
};

/// Saves the state of a host language, such as that of its random numbers; dropping the result restores it. Null, the
/// initial value, means that there is no host.
using KeepHostState = std::shared_ptr<void> (*)();
void set_keep_host_state(KeepHostState keep);
std::shared_ptr<void> keep_host_state();

}  // namespace diptych::detail
