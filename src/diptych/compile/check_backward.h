// The backward of a checked call: see Note [A checked call].
#pragma once
#include <torch/csrc/autograd/node.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/compile/check_compare.h"
#include "diptych/compile/check_copies.h"
#include "diptych/compile/compiled_function.h"

namespace diptych::detail {

/// What one autograd node of a checked call needs to take the original function's gradients. Threads: one at a time.
class CheckedBackward {
 public:
  using variable_list = torch::autograd::variable_list;

  struct Inputs {
    std::vector<std::string> paths;
    std::vector<at::Tensor> reals;
    torch::autograd::edge_list real_edges;
    std::shared_ptr<TensorCopies> copies;
    std::shared_ptr<Shadow> shadow;
  };
  /// `results`: the original function's tensor for each of the node's results; undefined where it is not known.
  CheckedBackward(std::string name, std::optional<double> tolerance, Inputs inputs, std::vector<at::Tensor> results)
      : name_(std::move(name)), tolerance_(tolerance), inputs_(std::move(inputs)), results_(std::move(results)) {}

  /// Takes the gradients of the original function for these tangents; to be called before the compiled backward.
  void run_original(const variable_list& tangents);
  /// Compares them with the compiled gradients, which arrive at `edges`. `graph` and `inputs` are those of the compiled
  /// backward, to find the differing node; null if it ran no graph. Errors: UserError names the argument.
  void compare(const variable_list& gradients, const torch::autograd::edge_list& edges, const Graph* graph,
               std::vector<at::Tensor> inputs);

 private:
  [[noreturn]] void report(size_t primal, const Difference& difference, const Graph* graph,
                           std::vector<at::Tensor>&& inputs) const;
  void compare_writes() const;

  std::string name_;
  std::optional<double> tolerance_;
  Inputs inputs_;
  std::vector<at::Tensor> results_;
  std::optional<variable_list> gradients_;  ///< per primal; nullopt if the original backward could not run
  std::vector<OperatorRecord> records_;
  std::vector<Shadow::Write> writes_;
  std::vector<size_t> written_;         ///< primals that the original backward has written to
  std::vector<int64_t> real_versions_;  ///< before the compiled backward
};

}  // namespace diptych::detail
