// The state of one trace: the graph under construction and the stand-ins of the tensors that flow into it.
#pragma once
#include <ATen/FunctionalStorageImpl.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/DimVector.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/node.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "diptych/graph/graph.h"
#include "diptych/ops/checkpoint_policy.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/operator_plan.h"

namespace diptych::detail {

/// A step in the chain of views that makes a stand-in, as functionalization keeps it.
using ViewStep = std::shared_ptr<at::functionalization::ViewMeta>;

/// Records operators into a graph. One trace has one recorder; a thread records into `current()`, the innermost.
/// Threads: a recorder is used by one thread at a time.
class Recorder {
 public:
  explicit Recorder(std::string graph_name);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* current();

  /// Adds a graph input of the given kind that looks like `example` and returns its stand-in, which requires no grad.
  at::Tensor add_input(const at::Tensor& example, Slot slot);
  /// Adds a primal: a graph input that stands for `real`, leaf or not and requiring grad as it does. Captures of `real`
  /// by the traced function mean the first primal that was added for it.
  const at::Tensor& add_primal(const at::Tensor& real, Slot slot);
  /// The stand-in of a tensor that is not of this trace: that of the argument it is, or of a new free variable.
  /// Stand-ins of this trace come back as they are. Errors: UserError for tensors a trace can't hold.
  const at::Tensor& stand_in(const at::Tensor& tensor);
  bool owns(const at::Tensor& tensor) const;
  /// A tensor of this trace that holds what `literal` holds and is new in each call, as a literal of Python's is: a
  /// copy of a constant. Undefined where others may see the memory of `literal`, as they see an array's.
  at::Tensor lift(const at::Tensor& literal);
  /// Says that this trace has met what no graph stands for, so that its graph must not be used: see Note [Transformed
  /// calls]. What is met goes on as a plain tensor of its sizes, so that the traced function comes to its end.
  void note_transform(std::string why);
  /// What was met first; empty if nothing was.
  const std::string& transform_met() const { return transform_met_; }
  /// The value that a stand-in of this trace has now, pending mutations applied.
  Value value_of(const at::Tensor& stand_in);

  /// While it lives, `op` is the operator that the user, or autograd for him, calls: what is recorded under it and is
  /// another view was taken by functionalization, whose grad mode is whatever holds when it happens to need it.
  class FrontCall {
   public:
    FrontCall(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
              const torch::jit::Stack& stack);
    ~FrontCall() { recorder_.front_ = outer_; }
    FrontCall(const FrontCall&) = delete;
    FrontCall& operator=(const FrontCall&) = delete;

    /// Sees to what the call has done. `stack` ends with its results.
    void finish(const torch::jit::Stack& stack);

   private:
    Recorder& recorder_;
    const OperatorPlan& plan_;
    const c10::FunctionSchema* outer_;
    at::Tensor self_;  // what the operator writes to, as it was:
    c10::DimVector strides_;
    size_t num_views_ = 0;
  };
  /// Whether a step in a chain of views was taken where gradients were not recorded.
  bool was_under_no_grad(const ViewStep& step) const { return no_grad_views_.count(step) != 0; }
  /// Whether a step in a chain of views shows elements as their conjugates, or as another dtype.
  bool reads_otherwise(const ViewStep& step) const { return rereading_views_.count(step) != 0; }
  /// Whether tensors were changed behind autograd's back (under no_grad, or through detach()), so that the recorded
  /// graph, differentiated again, would not give what autograd gives.
  bool hides_history() const { return blind_mutation_ || (any_mutation_ && no_grad_view_); }
  /// The same of tensors with a history alone: of these, what autograd sees and what the graph shows differ already
  /// where the graph is run under autograd.
  bool rewrites_history() const { return rewrites_unseen_ || (rewrites_ && no_grad_view_); }

  /// Sees to a write to elements that lie in one place, or that an operand shares: throws what eager throws, and calls
  /// the operator on the same elements by another way where functionalization can't write back by the views that were
  /// taken. Returns whether the operator was called. See Note [Overlapping writes].
  bool write_by_strides(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack);

  /// Runs the operator on shapes and records it: the kernel of kFakeKey.
  void record(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack);

  /// Adds a node of a higher-order operator, whose operands are values of this trace, and returns a stand-in for each
  /// result; they have no history yet. Its provenance is set here.
  std::vector<at::Tensor> record_hop(Node node, const std::vector<TensorMeta>& results);

  /// A tensor from outside that the graph takes as input.
  struct Primal {
    at::Tensor real;
    at::Tensor stand_in;
    Value value;                 ///< what it stood for before the function ran
    torch::autograd::Edge edge;  ///< where its gradient arrives; invalid if it requires none
    Slot slot;
    std::optional<size_t> same_as = {};  ///< the earlier primal that is the very same tensor, whose stand-in it shares
    std::optional<size_t> part_of = {};  ///< merged: the primal that it is a view of, where its gradient arrives
    std::optional<size_t> base_of = {};  ///< added by a merge: the primal that is a view of it
    std::optional<int64_t> place = {};   ///< merged: where it begins in the storage that it is put on, in elements
    /// Where it begins in what its stand-in's chain of views starts from.
    int64_t offset() const { return place.value_or(real.storage_offset()); }
  };
  /// The arguments, then the free variables in order of first use.
  const std::vector<Primal>& primals() const { return primals_; }
  /// The primal that a stand-in is, or that the function took it from as a view; null if there is none. Merged primals
  /// share a storage in the trace, and so do views of any of them.
  const Primal* primal_behind(const at::Tensor& stand_in) const;
  /// Whether the function has taken views whose offsets count from where the storage of this primal begins, and not
  /// from the primal: with another offset of the primal's own they are other elements.
  bool counts_offset_of(size_t primal) const { return counted_offsets_.count(primal) != 0; }
  /// Makes the primals at the positions `members`, whose real tensors share memory, views of one base, so that a
  /// mutation of one is seen in the others, and leaves the gaps between its elements. The slots stay as they are;
  /// `with_families`, primals are added for tensors of which several members are views. See Note [Merged primals].
  /// Requires: called before the traced function runs. Errors: UserError names members of several dtypes, or without
  /// families, that require grad.
  void merge(const std::vector<size_t>& members, bool with_families);
  /// From now on, what lies where a primal lies and is none itself stands for the primal's detach(). See Note [Aliases
  /// that no operator made].
  void join_aliases() { joins_aliases_ = true; }
  bool joins_aliases() const { return joins_aliases_; }
  /// Lets go of the arguments' real tensors, which the caller owns; free variables stay.
  void release_arguments();
  struct MergedBase {
    at::Tensor base;  ///< stands for the whole storage
    std::vector<size_t> members;
    bool holds(size_t index) const { return std::find(members.begin(), members.end(), index) != members.end(); }
  };
  const std::vector<MergedBase>& merged_bases() const { return merged_bases_; }
  /// Opens a checkpoint region inside the innermost open one; nodes of the forward that are recorded until it is left
  /// belong to it. Errors: UserError if there are too many inside each other.
  void enter_region(CheckpointPolicy policy);
  void leave_region() { open_regions_.pop_back(); }
  /// Says that what is recorded from now on in the forward stands for `node` of a graph that is traced again, whose
  /// scope, regions, marks and names it takes over; null for nothing.
  void set_replayed(const Node* node) { replayed_ = node; }
  /// The regions that were opened, and names that were given to inputs.
  const CheckpointedRegions& regions() const { return regions_; }
  /// Gives the node that makes the value of `tensor` a residual name.
  void name_residual(const at::Tensor& tensor, std::string_view name);
  Graph& graph() { return graph_; }
  uint64_t id() const { return id_; }
  /// From now on a backward is recorded; with `create_graph` one that autograd records as well.
  void begin_backward(bool create_graph);
  /// A value of the forward that the last backward with `create_graph` read, and that has a history for autograd and
  /// none in the graph; none if there is none.
  Value lost_history() const { return lost_history_; }
  Phase phase() const { return phase_; }
  /// Says whose gradient is being recorded: that of the autograd node of this sequence number.
  void set_backward_of(uint64_t sequence_number) { backward_of_ = sequence_number; }

 private:
  struct Call;  // one operator call being recorded

  Operand make_operand(const c10::IValue& argument, bool takes_tensor, bool takes_list, Call& call);
  Operand tensor_operand(const at::Tensor& tensor, Call& call);
  void exchange_for_meta(torch::jit::Stack& arguments, const OperatorPlan& plan);
  void run_on_meta(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack, const Call& call);
  static void read_results(const torch::jit::Stack& stack, size_t begin, const Call& call, Node& node,
                           std::vector<std::optional<TensorMeta>>& metas);
  void wrap_outputs(const c10::OperatorHandle& op, torch::jit::Stack& stack, size_t begin, Call& call);
  void replace_by_fake(torch::jit::Stack& stack, size_t begin, const ResultShape& shape, const Call& call);
  Provenance provenance();
  void remember_forward(const Node& node);
  Value forward_value_of(uint64_t sequence_number) const;
  bool record_as_copy_of_source(torch::jit::Stack* stack);
  bool is_conjugate_view(Value value) const;
  void resolve_base(const at::Tensor& tensor);
  bool record_in_memory_order(const c10::OperatorHandle& op, torch::jit::Stack* stack);
  void give_history(Primal& primal);
  void check_mergeable(const std::vector<size_t>& members, bool with_families) const;
  size_t find_head(const std::vector<size_t>& family);
  at::Tensor put_on_one_storage(const std::vector<size_t>& heads, const std::vector<size_t>& members);
  void find_places(const std::vector<size_t>& members);
  void make_part(size_t part, size_t head, const at::Tensor& storage);
  void restore_layout(const at::Tensor& tensor, c10::IntArrayRef strides);
  bool records_gradients() const;
  void note_lost_history(const at::Tensor& operand);
  bool reaches_primal(const torch::autograd::Edge& from) const;
  bool gradients_enabled(const c10::OperatorHandle& op, const OperatorPlan& plan) const;
  void check_not_captured(const at::Tensor& reshaped) const;
  const at::Tensor* alias_of_primal(const at::Tensor& tensor);
  void note_history(const OperatorPlan& plan, const at::Tensor& self);
  bool may_have_history(const at::Tensor& self) const;
  void note_view(const OperatorPlan& plan, const at::Tensor& view);
  void note_strided(const torch::jit::Stack& stack);
  bool can_write_back(const at::Tensor& view) const;
  at::Tensor same_elements_of_base(const at::Tensor& view, bool once);
  void replace_base(const at::Tensor& base);
  void recover_views_by_strides(at::Tensor base);  // by value: what is exchanged holds the caller's reference

  uint64_t id_;
  Graph graph_;
  std::string transform_met_;
  std::vector<at::Tensor> transformed_;  ///< that were met: they keep their addresses
  Phase phase_ = Phase::kForward;
  bool create_graph_ = false;  // of the backward that is recorded
  Value lost_history_;
  uint64_t backward_of_ = 0;
  std::vector<Primal> primals_;
  size_t num_free_variables_ = 0;
  std::vector<MergedBase> merged_bases_;
  bool joins_aliases_ = false;
  std::unordered_map<const c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>>
      aliases_;  ///< with what stands for them
  const c10::FunctionSchema* front_ = nullptr;
  CheckpointedRegions regions_;
  std::vector<InternedString> open_regions_;
  const Node* replayed_ = nullptr;
  bool writes_by_strides_ = false;
  bool any_mutation_ = false;
  bool blind_mutation_ = false;
  bool no_grad_view_ = false;
  bool rewrites_ = false;  ///< some tensor was changed in place that has a history, or shares memory with one that has
  bool rewrites_unseen_ = false;                                 ///< and autograd did not see it
  std::unordered_set<const c10::StorageImpl*> with_history_;     ///< storages of which some tensor requires grad
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> views_;  ///< that the function took
  /// Steps in chains of views: those that functionalization can't write back through, and those that were taken under
  /// no_grad.
  std::unordered_set<ViewStep> unwritable_views_;
  std::unordered_set<ViewStep> no_grad_views_;
  std::unordered_set<ViewStep> rereading_views_;
  std::unordered_set<size_t> counted_offsets_;
  std::unordered_map<const c10::TensorImpl*, size_t> primal_of_;
  /// For each autograd node of the forward, counted from the first, the last value that was recorded under it.
  std::vector<Value> forward_values_;
  uint64_t first_forward_node_ = 0;
};

/// The tensor that autograd sees `tensor` as a view of, or itself.
const at::Tensor& autograd_base(const at::Tensor& tensor);

/// Whether two tensors share memory as far as the traces in progress know: a stand-in lies where what it stands for
/// does.
bool share_memory_in_traces(const at::Tensor& a, const at::Tensor& b);

/// Whether operators that are called on this thread are recorded.
bool is_tracing();

/// Does nothing; calling it makes the linker keep the registration of the dispatch kernels.
void link_dispatch_kernels();

/// Makes `recorder` current and switches tracing on for this thread; restores everything when it goes, exception or
/// not. Hooks on saved tensors that are in force outside see nothing of a trace, whose tensors hold nothing.
class TraceGuard {
 public:
  explicit TraceGuard(Recorder& recorder);
  ~TraceGuard();
  TraceGuard(const TraceGuard&) = delete;
  TraceGuard& operator=(const TraceGuard&) = delete;

 private:
  c10::impl::LocalDispatchKeySet saved_keys_;
  at::impl::SavedTensorDefaultHooksTLS saved_hooks_;
  bool saved_reapply_views_;
};

/// Switches tracing off for this thread, for code that runs on real tensors inside a trace.
class PauseTraceGuard {
 public:
  PauseTraceGuard();
  ~PauseTraceGuard();
  PauseTraceGuard(const PauseTraceGuard&) = delete;
  PauseTraceGuard& operator=(const PauseTraceGuard&) = delete;

 private:
  c10::impl::LocalDispatchKeySet saved_keys_;
};

}  // namespace diptych::detail
