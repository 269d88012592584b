// What a function reads and changes besides tensors, put back after it has run a second time.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "diptych/graph/graph.h"

namespace diptych::detail {

/// The generators that a call may draw from: the default one of the CPU, and those that a graph holds.
class Generators {
 public:
  explicit Generators(const Graph& graph);
  std::vector<at::Tensor> states() const;
  void set(const std::vector<at::Tensor>& states);

 private:
  std::vector<at::Generator> generators_;
};

/// Keeps the state of a host language, such as that of its random numbers, until what it returns is dropped, which puts
/// it back. Null, as at first: there is no host.
using KeepHostState = std::shared_ptr<void> (*)();
void set_keep_host_state(KeepHostState keep);
std::shared_ptr<void> keep_host_state();

}  // namespace diptych::detail
