// The forward and the backward half of a body.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/passes/partition.h"

namespace diptych::detail {

/// A capture that several pairs are made from.
struct SharedCapture {
  template <class... A>
  explicit SharedCapture(A&&... arguments) : capture(std::forward<A>(arguments)...) {}
  std::mutex mutex;  ///< held while joint graphs are traced
  JointCapture capture;
};

/// Marks each node of a graph as part of a body with a derivative of its own, see Body::has_own_derivative(), if the
/// body was planned as one. Nodes keep the mark through every pass.
void mark_own_derivative(Graph& graph, const ForwardPlan& plan);

/// A body's forward, which also returns what its backward reads, and its backward for any set of given tangents. The
/// forward does not return residuals that are inputs of the body, since an operator has these already. It does return
/// carries, of which the operator has only the first step's. Threads: any.
class BodyPair {
 public:
  /// `num_results`: how many results the body has; other outputs of the capture (new values of mutated inputs) are
  /// ignored. `num_carries`: how many of the first inputs are carries.
  BodyPair(std::shared_ptr<SharedCapture> capture, size_t num_results, size_t num_carries, bool create_graph,
           const Partitioner& partitioner);

  /// Inputs: those of the body. Outputs: its results, then the residuals that are not inputs.
  const std::shared_ptr<const Graph>& forward() const { return forward_; }
  size_t num_results() const { return num_results_; }
  size_t num_new_residuals() const { return forward_->outputs().size() - num_results_; }
  /// Where a residual comes from: input `index` of the body, or output `index` of forward().
  struct Residual {
    bool is_input = false;
    size_t index = 0;
  };
  const std::vector<Residual>& residuals() const { return residuals_; }
  /// Per result, whether it requires grad and so has a tangent.
  const std::vector<bool>& differentiable() const { return differentiable_; }
  /// Per input of the body, whether a gradient reaches it when the tangents of the results marked in `given` are given.
  std::vector<bool> reached(const std::vector<bool>& given) const;
  /// Inputs: residuals(), then one tangent per differentiable result; nothing reads those that are not marked in
  /// `given`. Outputs: one gradient per input of the body, no value where nothing flows.
  Graph backward(const std::vector<bool>& given) const;

 private:
  std::vector<bool> tangents_of(const std::vector<bool>& given) const;

  Joint trace_joint(const std::vector<bool>& given) const;

  std::shared_ptr<SharedCapture> capture_;
  size_t num_results_;
  bool create_graph_;
  Joint joint_;  ///< with every result's tangent
  Split split_;
  std::shared_ptr<const Graph> forward_;
  std::vector<Residual> residuals_;
  std::vector<bool> differentiable_;
};

}  // namespace diptych::detail
