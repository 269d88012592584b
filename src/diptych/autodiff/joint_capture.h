// Capturing a function and its gradient as one joint graph, by running the C++ autograd engine on stand-ins.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diptych/autodiff/flat_function.h"
#include "diptych/autodiff/forward_plan.h"
#include "diptych/autodiff/host_reads.h"
#include "diptych/autodiff/saving_nodes.h"
#include "diptych/autodiff/value_questions.h"
#include "diptych/passes/partition.h"

namespace diptych::detail {

struct CaptureOptions {
  std::string name = "joint";
  /// Each output slot holds the output itself, with a tangent of its own, as a caller of the bare graphs wants it.
  /// Otherwise outputs that are inputs, or views, leave the graph as their base and are made again outside it.
  bool exact_outputs = false;
  /// Cuts the backward where one result is computed from another, so that gradients with respect to results exist.
  bool stages = false;
  /// Whether the function may ask for values on the host: they are computed from the arguments, which are then real
  /// tensors, and the capture holds for calls with the same answers. If not, asking is an error.
  bool answers_questions = false;
  /// Or what they are answered, which outlives the capture: the arguments need no elements then. See AskedValues.
  const std::vector<KnownAnswer>* answers = nullptr;
  /// Whether the function may call backward(): see ForwardPlan::accumulated. If not, that is an error.
  bool accumulates = false;
  /// Whether tensors that torch.func, vmap and forward mode wrap may be free variables: see
  /// Recorder::take_wrapped_tensors().
  bool takes_wrapped = false;
};

/// Values of a trace that follow from others of it, with their histories, by which autograd differentiates them.
struct TracedValues {
  Graph graph;                         ///< the trace up to here
  std::vector<at::Tensor> from;        ///< stand-ins: the primals, then tangents
  std::vector<at::Tensor> to;          ///< what follows; undefined where nothing does
  std::vector<Value> inputs, outputs;  ///< the values of these
  size_t num_primals = 0;
};

/// One capture of a function, kept so that further backward variants can be traced from it.
/// Threads: one at a time; any thread.
class JointCapture {
 public:
  /// Traces the forward. `paths` names the arguments.
  /// Errors: UserError for what a graph can't hold; whatever the function throws.
  JointCapture(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
               const std::vector<std::string>& paths, const CaptureOptions& options = {});
  ~JointCapture();
  JointCapture(const JointCapture&) = delete;
  JointCapture& operator=(const JointCapture&) = delete;

  /// Returns the joint graph for the case that the tangents marked in `defined` (one per plan().stage_of_tangent) are
  /// given. Its forward nodes and their value numbers are the same at every call. `create_graph`: use formulas that can
  /// be differentiated again, as autograd chooses them for a create_graph backward.
  Joint joint(const std::vector<bool>& defined, bool create_graph = false);
  /// Returns the joint graph with every tangent given; only the forward if nothing is differentiable.
  Joint joint();
  /// Returns the same graph, moved out instead of copied. Ensures: no further joint graph can be asked for.
  Joint take_joint();

  /// Returns the gradients of the primals, where the graph of them does not say what their derivatives are: they depend
  /// on what a Function of the user's or a hook computes, or plan().hides_history. Nullopt where it does, and where
  /// history is hidden and the backward has several stages, or primals share memory.
  /// Errors: UserError if the backward of a Function or a hook is such a one.
  std::optional<TracedValues> gradients(const std::vector<bool>& defined);
  /// Returns what arrives at `values.from` from tangents of those of `values.to` that are marked. The tangents follow
  /// behind the inputs of `values`. Errors: whatever a backward throws.
  TracedValues derivatives(const TracedValues& values, const std::vector<bool>& defined);

  /// Returns what eager's backward keeps, node by node. Requires: a joint graph has been traced for every tangent.
  std::vector<SavingNode> saving_nodes() const;

  /// Returns what user-written backwards read, over all that have been traced. See Note [What a backward reads].
  std::vector<std::shared_ptr<const detail::HostReads>> host_reads() const;

  /// What the function asked for on the host: see CaptureOptions::answers_questions.
  const AskedQuestions& asked() const;

  /// Releases the arguments of the capture; a capture that is kept must not keep a batch alive.
  void release_arguments();

  const ForwardPlan& plan() const;
  /// Returns the real tensors that the function captured, in order of first use.
  std::vector<at::Tensor> free_variables() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace diptych::detail
