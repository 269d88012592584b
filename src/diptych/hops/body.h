// A function captured once, as a higher-order operator holds it, and its halves.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/hops/body_pair.h"
#include "diptych/interpreter/program.h"

namespace diptych {

/// A captured function: a graph from its arguments and free variables to its results, which is pure and does not branch
/// on data. A body captured from code has the derivative of the code, custom autograd functions included; a body made
/// from a graph has the derivative of the graph's operators. Threads: any.
class Body {
 public:
  /// Captures `function` on `arguments`: placeholders or real tensors. A real argument that the function also captures
  /// is one input, not two. `paths` names the arguments.
  /// `asks`: whether the function may ask for values of the arguments, which are then real: see questions().
  /// Errors: as JointCapture.
  Body(const FlatFunction& function, const std::vector<at::Tensor>& arguments, const std::vector<std::string>& paths,
       const std::string& name, bool asks = false);
  explicit Body(std::shared_ptr<const Graph> graph);

  /// Inputs: arguments, free variables. Outputs: results.
  const std::shared_ptr<const Graph>& graph() const { return graph_; }
  size_t num_inputs() const { return graph_->inputs().size(); }
  size_t num_results() const { return graph_->outputs().size(); }
  const TensorMeta& input(size_t index) const { return graph_->meta(graph_->inputs()[index]); }
  const TensorMeta& result(size_t index) const { return graph_->meta(graph_->outputs()[index]); }
  /// Whether a result requires grad if the inputs require it as they did in the capture. The graph's metadata may say
  /// less where autograd did not see that the result was changed, and more where a gradient stops.
  bool result_requires_grad(size_t index) const {
    return capture_ ? differentiable_[index] : result(index).requires_grad;
  }
  /// Whether the capture found that a carry requires grad from the second step on, of a loop whose inputs require it
  /// so.
  bool carry_settles_to_require_grad(size_t carry, const std::vector<bool>& requires_grad, size_t num_carries) const;
  /// The tensors that the function captured, in order of first use; none for a graph.
  const std::vector<at::Tensor>& free_variables() const { return free_variables_; }
  /// What the function did to its inputs; nothing for a graph.
  const std::vector<detail::MutationPlan>& mutations() const { return mutations_; }
  /// What the function asked for on the host; the graph stands for calls with the same answers. Requires: it is
  /// captured from code.
  const std::vector<detail::ValueQuestion>& questions() const { return capture_->capture.asked().questions; }
  /// Whether it calls a torch::autograd::Function or registers a hook, which its graph does not show.
  bool has_own_rule() const {
    return capture_ && (capture_->capture.plan().has_custom_function || capture_->capture.plan().has_hook);
  }
  /// Whether its code changes a tensor with a history in place where autograd does not see it.
  bool rewrites_history() const { return capture_ && capture_->capture.plan().rewrites_history; }
  /// Whether it, or a body that it calls, has a rule of its own or rewrites history: running its graph, which is pure,
  /// under autograd would not yield its derivative.
  bool has_own_derivative() const { return own_derivative_; }
  /// Whether its code changes a tensor in place. Its graph does not.
  bool writes() const { return capture_ && capture_->capture.plan().writes; }
  /// Whether running it draws random numbers.
  bool draws() const { return draws_; }

  /// The graph made ready to run; compiled at the first call.
  const Program& program() const;
  /// Runs it on `inputs`, each laid out as in the capture: a view that the capture recorded may be illegal for another
  /// layout.
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs, const RunOptions& options = {}) const;
  /// Returns the halves for the case that the inputs marked in `requires_grad` require it; the first `num_carries`
  /// inputs are carries. `create_graph`: use formulas that can be differentiated again. Errors: UserError where the
  /// derivative of a derivative is not known.
  std::shared_ptr<const detail::BodyPair> pair(const std::vector<bool>& requires_grad, size_t num_carries,
                                               bool create_graph) const;

 private:
  struct KeyedPair {
    std::vector<bool> requires_grad;
    size_t num_carries;
    bool create_graph;
    std::shared_ptr<const detail::BodyPair> pair;
  };
  std::shared_ptr<detail::SharedCapture> capture_with(const std::vector<bool>& requires_grad) const;
  std::shared_ptr<detail::SharedCapture> capture_that_covers(const std::vector<bool>& requires_grad) const;

  std::shared_ptr<const Graph> graph_;
  std::shared_ptr<detail::SharedCapture> capture_;  ///< of the code; null for a graph
  std::vector<bool> traced_requires_grad_;
  std::vector<bool> differentiable_;  ///< per result, as the capture found it
  std::vector<at::Tensor> free_variables_;
  std::vector<detail::MutationPlan> mutations_;
  bool draws_ = false;
  bool own_derivative_ = false;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Program> program_;
  mutable std::vector<KeyedPair> pairs_;
};

}  // namespace diptych
