// The state of one trace: the graph under construction, and what is known of the tensors that flow into it.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/graph/graph.h"
#include "diptych/trace/asked_values.h"
#include "diptych/trace/autograd_facts.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/operator_plan.h"
#include "diptych/trace/parts.h"
#include "diptych/trace/primal_table.h"
#include "diptych/trace/provenance.h"
#include "diptych/trace/trace_guard.h"
#include "diptych/trace/view_ledger.h"

namespace diptych::detail {

/// Records operators into a graph. One trace has one recorder; a thread records into `current()`, the innermost. Five
/// parts know what does not belong to the graph: primal_table() the tensors from outside, views() the views and writes
/// of the function, parts() what is taken of tensors at places that only the run knows, provenance() where nodes come
/// from, and asked_values() what the function asked for on the host.
/// Threads: a recorder is used by one thread at a time.
class Recorder {
 public:
  explicit Recorder(std::string graph_name);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* current() { return innermost_recorder(); }

  uint64_t id() const { return id_; }
  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  PrimalTable& primal_table() { return primals_; }
  const PrimalTable& primal_table() const { return primals_; }
  ViewLedger& views() { return views_; }
  const ViewLedger& views() const { return views_; }
  ProvenanceTracker& provenance() { return provenance_; }
  const ProvenanceTracker& provenance() const { return provenance_; }
  AskedValues& asked_values() { return asked_; }
  const AskedValues& asked_values() const { return asked_; }
  Parts& parts() { return parts_; }

  /// Gives the free variables that have a number instead of a name the one that `find` returns for the real tensor, by
  /// which a binding knows that the function reaches it. A number stays where `find` returns an empty name, or one that
  /// another input has.
  void name_free_variables(const std::function<std::string(const at::Tensor& real)>& find);
  /// The arguments, then the free variables in order of first use.
  const std::vector<Primal>& primals() const { return primals_.all(); }
  Phase phase() const { return provenance_.phase(); }
  /// From now on a backward is recorded; with `create_graph` one that autograd records as well.
  void begin_backward(bool create_graph) { provenance_.begin_backward(create_graph); }
  /// See ProvenanceTracker::set_replayed().
  void set_replayed(const Node* node) { provenance_.set_replayed(node); }
  /// Gives the node that computes the value of `tensor` a residual name.
  void name_residual(const at::Tensor& tensor, std::string_view name);

  /// Adds a graph input of the given kind that looks like `example` and returns its stand-in, which requires no grad.
  at::Tensor add_input(const at::Tensor& example, Slot slot);
  /// Adds a primal: a graph input that stands for `real`, with the same requires_grad and is_leaf. Where the traced
  /// function captures `real`, the first primal that was added for it is used.
  const at::Tensor& add_primal(const at::Tensor& real, Slot slot);
  /// Returns the stand-in of a tensor from outside this trace: that of the argument that the tensor is, or that of a
  /// new free variable. Returns stand-ins of this trace unchanged.
  /// Errors: UserError for tensors that a trace can't hold.
  const at::Tensor& stand_in(const at::Tensor& tensor);
  bool owns(const at::Tensor& tensor) const;
  /// Returns a tensor of this trace that holds the elements of `literal` and is new in each call, as a literal of
  /// Python is: a copy of a constant. Undefined where others may see the memory of `literal`, as with an array.
  at::Tensor lift(const at::Tensor& literal);
  /// Returns the value that a stand-in of this trace has now, pending writes applied.
  Value value_of(const at::Tensor& stand_in);
  /// Returns a stand-in of that value, which writes to `stand_in` do not change.
  at::Tensor snapshot(const at::Tensor& stand_in);
  /// Says that the value of a stand-in that an operator has just made has no history, though it was given tensors that
  /// require grad.
  void forget_history(const at::Tensor& stand_in) { graph_.mutable_meta(value_of(stand_in)).requires_grad = false; }

  /// From now on tensors that torch.func, vmap and forward mode wrap become free variables that look like them: what
  /// runs the graph has rules for them.
  void take_wrapped_tensors() { takes_wrapped_ = true; }
  /// Says that this trace has met a tensor or mode that no graph stands for, so that its graph must not be used: see
  /// Note [Transformed calls]. The trace goes on with a plain tensor of the same sizes, so that the function returns.
  void note_transform(std::string why);
  /// Returns the first reason given to note_transform(); empty if there is none.
  const std::string& transform_met() const { return transform_met_; }

  /// Says that the function calls an operator with a body whose graph does not show all of its derivative.
  void note_rule_of_body() { has_rule_of_body_ = true; }
  bool has_rule_of_body() const { return has_rule_of_body_; }

  /// The operator that the user, or autograd for him, calls; null outside such a call.
  struct Front {
    const c10::FunctionSchema* schema = nullptr;
    const OperatorPlan* plan = nullptr;
  };
  const Front& front() const { return front_; }
  void set_front(const Front& front) { front_ = front; }

  /// Runs the operator on shapes and records it: the kernel of kFakeKey.
  void record(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack);
  /// Adds a node of a higher-order operator, which has no entry in the dispatcher, and returns a stand-in for each
  /// result; they have no history yet. Its provenance is set here. Requires: its operands are values of this trace.
  std::vector<at::Tensor> record_hop(Node node, const std::vector<TensorMeta>& results);

 private:
  struct Call;  // one operator call being recorded

  bool record_another_way(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack);
  Node make_node(const c10::OperatorHandle& op, const OperatorPlan& plan, const torch::jit::Stack& stack, Call& call);
  Operand make_operand(const c10::IValue& argument, bool takes_tensor, bool takes_list, Call& call);
  Operand tensor_operand(const at::Tensor& tensor, Call& call);
  void ask_for_results(const c10::OperatorHandle& op, const std::vector<at::Tensor>& results);
  static void read_results(const torch::jit::Stack& stack, size_t begin, const Call& call, Node& node,
                           std::vector<std::optional<TensorMeta>>& metas);
  void wrap_outputs(torch::jit::Stack& stack, size_t begin, const Call& call);
  void replace_by_fake(torch::jit::Stack& stack, size_t begin, const ResultShape& shape, const Call& call);
  at::Tensor make_stand_in(const ResultShape& shape, c10::Device device, Value value) const;
  bool gradients_enabled(const c10::OperatorHandle& op, const OperatorPlan& plan) const;

  uint64_t id_;
  Graph graph_;
  PrimalTable primals_;
  ViewLedger views_;
  ProvenanceTracker provenance_{graph_};
  AskedValues asked_;
  Parts parts_;
  Front front_;
  bool takes_wrapped_ = false;
  std::string transform_met_;
  bool has_rule_of_body_ = false;
};

}  // namespace diptych::detail
