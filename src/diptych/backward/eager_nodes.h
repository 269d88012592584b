// hop.autograd_node: a node of the autograd graph, or one kind of its hooks, that runs eagerly in the middle of a
// captured backward. It holds what a graph can't, and runs it in eager's order and on eager's tensors.
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/backward/maybe_undefined.h"
#include "diptych/backward/run_order.h"
#include "diptych/graph/graph.h"

namespace diptych::detail {

/// Which part of its node an eager call runs.
enum class EagerStage : uint8_t {
  kTensorHooks,  ///< hooks on tensors and retain_grad: gradients to gradients
  kPreHooks,     ///< gradients to gradients
  kNode,         ///< pre-hooks, the node itself, validation, post-hooks: gradients to the gradients of its inputs
  kPostHooks,    ///< the gradients of its inputs, then its gradients, to the former
  kBareNode,     ///< the node itself and validation, no hooks: gradients to the gradients of its inputs
  kSum,          ///< two gradients to their sum, one of which may be sparse
};

struct EagerCall {
  size_t call = 0;  ///< position among the run's calls
  EagerStage stage = EagerStage::kNode;
  std::vector<bool> is_given;                   ///< per input of the stage, whether it is an operand; undefined if not
  std::vector<MaybeUndefined> maybe_undefined;  ///< per operand
  std::vector<bool> is_wanted;                  ///< per result of the stage, whether it is a result of the node
  int64_t first_number = 0;                     ///< of its results
};

const HopSchema& autograd_node_schema();

/// Makes the graph's node for an eager call.
Node make_eager_node(const EagerCall& eager, const std::vector<Value>& operands);

/// Calls a stage's hooks of a node as the engine does. Requires: it is one of hooks.
torch::autograd::variable_list call_hooks(torch::autograd::Node& node, EagerStage stage,
                                          torch::autograd::variable_list gradients);

/// The state that the eager calls of one captured run read. It is made before the graph is run, on the same thread.
class EagerRun {
 public:
  /// `dense`: numbers of results that must not be sparse, because the run's ending takes them; it outlives the run.
  EagerRun(const std::vector<RunCall>& calls, size_t num_numbers, bool keeps_graph, const MaybeUndefined& dense);
  ~EagerRun();
  EagerRun(const EagerRun&) = delete;
  EagerRun& operator=(const EagerRun&) = delete;
  static EagerRun& current();

  std::vector<at::Tensor> call(const EagerCall& eager, std::vector<at::Tensor>&& operands);
  bool is_undefined(const MaybeUndefined& maybe_undefined) const;
  /// Returns the call that ran last, so that an exception leaves the nodes as it would in eager.
  size_t last_call() const { return last_call_; }

 private:
  void check(const EagerCall& eager, const std::vector<at::Tensor>& operands) const;
  std::vector<at::Tensor> wanted_of(const EagerCall& eager, std::vector<at::Tensor>&& results,
                                    const std::vector<at::Tensor>& like);
  std::vector<at::Tensor> run_stage(const EagerCall& eager, std::vector<at::Tensor>&& inputs) const;
  std::vector<at::Tensor> run_node(torch::autograd::Node& node, std::vector<at::Tensor>&& inputs) const;
  std::vector<at::Tensor> run_bare_node(torch::autograd::Node& node, std::vector<at::Tensor>&& inputs) const;

  const std::vector<RunCall>& calls_;
  bool keeps_graph_;
  std::vector<bool> undefined_;
  const MaybeUndefined& dense_;
  c10::impl::LocalDispatchKeySet keys_;  ///< those of eager
  size_t last_call_ = 0;
  EagerRun* outer_;
};

/// Detaches a gradient that has a history where gradients are not recorded. Such a gradient is a tensor that some node
/// has saved; in eager, an operator would have made a new tensor there.
void drop_history(at::Tensor& gradient);

}  // namespace diptych::detail
