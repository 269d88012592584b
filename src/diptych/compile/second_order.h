// Differentiates a backward: its graph, from the primals on, is a function like any other and is captured again.
#pragma once
#include <memory>
#include <vector>

#include "diptych/compile/derivatives.h"
#include "diptych/compile/flat_aot.h"
#include "diptych/passes/partition.h"

namespace diptych::detail {

/// Lays a tangent out in the strides that the graph was traced for, since some views are possible for no others.
at::Tensor laid_out(const at::Tensor& tangent, const std::vector<int64_t>& strides);

/// Returns the values that the random nodes among those needed for `outputs` make.
/// Errors: UserError if such a node computes with what it draws.
std::vector<Value> random_values(const Graph& graph, const std::vector<Value>& outputs);

/// The gradients of one backward variant as a differentiable function of primals and tangents, and of other values of
/// the forward that have a history of their own outside. Random values that the forward drew are drawn again from saved
/// generator states and enter as constants, so that a mask stays the same mask.
/// Note [Second order]: residuals are plain tensors without history, so the gradients can't be differentiated through
/// them. Instead they are computed from the primals again, by the joint graph, which runs under autograd and is
/// captured in its turn. That capture has a backward of its own, so this works to any order.
class SecondOrder {
 public:
  /// What it starts from.
  struct Starts {
    bool has_sizes = false;       ///< the values of symbols, first of all
    std::vector<bool> are_given;  ///< per gradient primal and crossing
  };

  /// `starts` are values of the joint graph; the first `num_primals` of them are inputs.
  /// Errors: UserError if a random operator's result must itself be differentiated.
  SecondOrder(const Joint& joint, const std::vector<bool>& defined, const std::vector<Value>& starts,
              size_t num_primals, Starts kinds, const AotOptions& options);

  /// The same where the graph does not say what its derivatives are.
  SecondOrder(std::unique_ptr<const Derivatives> derivatives, Starts kinds);

  const Starts& starts() const { return starts_; }

  /// Returns one gradient per primal and crossing of the joint graph. `starts` are the tensors of the values given at
  /// construction, with their history; `tangents` has all tangents, with the same ones defined as at construction.
  std::vector<at::Tensor> gradients(const std::vector<at::Tensor>& starts, const std::vector<at::Tensor>& tangents,
                                    const std::vector<at::Tensor>& generator_states);

 private:
  std::vector<at::Tensor> draw_again(const std::vector<at::Tensor>& primals,
                                     const std::vector<at::Tensor>& generator_states) const;

  Starts starts_;
  std::shared_ptr<const Program> draws_;  // null if nothing random is needed
  std::shared_ptr<const Program> gradients_;
  std::vector<std::optional<size_t>> output_of_gradient_;
  size_t num_primals_ = 0;
  std::vector<std::vector<int64_t>> tangent_strides_;  ///< of the defined ones
  std::unique_ptr<FlatAot> aot_;
  std::unique_ptr<const Derivatives> derivatives_;  ///< null where the graph says it
};

}  // namespace diptych::detail
