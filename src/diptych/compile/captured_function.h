// One capture of a function: its graphs, and what was found out while it was traced. Nothing here is compiled.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/compile/capture_watch.h"
#include "diptych/compile/graph_source.h"
#include "diptych/compile/options.h"
#include "diptych/trace/global_state.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

class ReleaseRules;

/// How much of a capture is made.
enum class CaptureExtent : uint8_t {
  kCallable,  ///< graphs that are ready to be compiled
  kGraphs,    ///< graphs with constants as they were traced, to be unified with those of other sizes
  kTrace,     ///< only what was traced
};

/// How a function is captured.
struct CaptureMode {
  CaptureMode(CaptureExtent wanted)  // NOLINT(google-explicit-constructor): the extent says the rest
      : extent(wanted), has_values(wanted != CaptureExtent::kGraphs) {}
  CaptureExtent extent;
  bool has_values;                                    ///< whether the arguments are those of a call
  const std::vector<KnownAnswer>* answers = nullptr;  ///< to what the function asks for, if they are not
};

/// A function captured on arguments of one kind. Backwards are traced when first needed. Threads: const members may be
/// called from any number at once.
class CapturedFunction final : public GraphSource {
 public:
  /// Captures `function` on `arguments` under the caller's grad mode and autocast state. `accumulates`: whether it may
  /// call backward(), since a binding sees whether it reads .grad.
  /// Errors: as JointCapture, whose UserErrors become CaptureRefused; UserError from partitioners.
  CapturedFunction(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                   const std::vector<std::string>& paths, AotOptions options,
                   const CaptureMode& mode = CaptureExtent::kCallable, bool accumulates = false);
  ~CapturedFunction() override;

  const CapturedFunction& captured() const override { return *this; }
  const Graph& forward() const override { return forward_; }
  const Graph& epilogue() const override { return plan().epilogue; }
  const std::vector<TensorMeta>& hidden_metas() const override { return plan().hidden; }
  Graph backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const override;
  Joint joint(const std::vector<bool>& defined) const override;

  /// See JointCapture::gradients() and derivatives().
  std::optional<TracedValues> gradients(const std::vector<bool>& defined) const;
  TracedValues derivatives(const TracedValues& values, const std::vector<bool>& defined) const;

  const AotOptions& options() const { return options_; }
  const SimplifyOptions& simplify() const { return simplify_; }
  const ForwardPlan& plan() const { return capture_->plan(); }
  /// What the function asked for on the host; the graphs stand for calls with the same answers.
  const std::vector<ValueQuestion>& questions() const { return capture_->asked().questions; }
  /// The answers to all that was asked: see AskedQuestions::answers.
  const std::vector<KnownAnswer>& answers() const { return capture_->asked().answers; }
  Graph handed_on() const override;
  const JointLayout& layout() const { return layout_; }
  bool is_differentiable() const { return !plan().differentiable.empty(); }
  /// The joint graph as it was traced; without dead nodes in an extent other than kCallable, which has one only if
  /// constants are checked.
  const Graph& traced_graph() const { return traced_graph_; }
  /// The forward graph before the passes that follow the split. Requires: an extent other than kTrace.
  const Graph& split_forward() const { return split_forward_; }
  size_t num_residuals() const { return saved_.size(); }

  /// Returns, per tangent, whether a backward can be traced for it, which is so if eager has one.
  std::vector<bool> traceable_tangents() const;
  /// Throws what tracing the backward of one of these tangents threw. As in eager, only a backward that such a tangent
  /// reaches fails.
  void check_traceable(const std::vector<bool>& defined) const;
  /// The tangents that arrive at a stage, by number.
  const std::vector<size_t>& tangents_of(size_t stage) const { return tangents_of_stage_[stage]; }
  /// Primals whose values a gradient depends on: a backward of the backward starts from them.
  const std::vector<size_t>& gradient_primals() const { return gradient_primals_; }
  /// Crossings whose values a gradient depends on.
  const std::vector<size_t>& gradient_crossings() const { return gradient_crossings_; }
  /// The value of a joint graph, as it was traced, that a crossing stands for.
  Value value_in(const Graph& joint, size_t crossing) const;
  /// Whether a crossing is a forward slot, whose number is the same in all graphs of the function.
  bool is_of_slot(size_t crossing) const;
  /// Whether a crossing is a result of that stage, in a slot.
  bool is_own_result(size_t crossing, size_t stage) const;
  const ReleaseRules& release_rules() const;
  /// Returns the state of the host that the backward reads, as it is now. See Note [What a backward reads].
  detail::HostState host_state() const;

  size_t num_arguments() const { return layout_.num_arguments; }
  const std::vector<at::Tensor>& free_variables() const { return free_variables_; }
  /// Whether another capture has the same free variables.
  bool reads_same(const CapturedFunction& other) const;
  /// Appends the addresses of the free variables, which guards check, too, to those of the arguments. Arguments that
  /// the function captures as well come last: guards see by these whether they are still the same tensors.
  template <class Tensors>
  void append_free_variables(Tensors& tensors) const {
    const size_t begin = tensors.size();
    for (const at::Tensor& tensor : free_variables_) tensors.push_back(&tensor);
    for (const auto& derived : plan().derived) {
      tensors[begin + derived.free_variable] = &detail::autograd_base(*tensors[derived.base_of]);
    }
    for (const at::Tensor& tensor : captured_arguments_) tensors.push_back(&tensor);
  }
  /// Returns the arguments of a call, then the free variables. Errors: UserError for an argument that gradients would
  /// bypass although it has hooks or retains its gradient.
  std::vector<at::Tensor> primals_of(c10::ArrayRef<const at::Tensor*> arguments) const;
  /// Whether a gradient that a call accumulates meets a hook, or a .grad in memory that the graph reads or writes, so
  /// that the function itself has to run.
  bool meets_gradient_hook(c10::ArrayRef<const at::Tensor*> arguments) const;
  /// Returns those primals that a call writes to.
  std::vector<at::Tensor> written(c10::ArrayRef<const at::Tensor*> arguments) const;
  /// The primals whose geometry a call changes.
  const std::vector<size_t>& reshaped() const { return reshaped_; }
  bool draws_random() const { return draws_random_; }
  /// Which primal or output each residual shares its storage with, so that a later mutation of it is noticed.
  struct ResidualSource {
    enum class Kind : uint8_t { kOwn, kPrimal, kOutput } kind = Kind::kOwn;
    size_t index = 0;
  };
  const std::vector<ResidualSource>& residual_sources() const { return residual_sources_; }

 private:
  /// A backward half after the split, before the passes that follow it.
  struct Half {
    std::vector<bool> defined;
    GlobalState state;
    Graph graph;
  };

  void heed_questions();
  Joint trace_joint();
  Joint lowered(Joint traced) const;
  void make_graphs(Joint joint);
  void find_mutated();
  void find_gradient_starts(const Joint& traced);
  void find_residual_sources();
  void find_stages();
  Graph half(const std::vector<bool>& defined) const;

  AotOptions options_;
  std::shared_ptr<const Backend> shaping_backend_;
  SimplifyOptions simplify_;
  std::shared_ptr<JointCapture> capture_;
  JointLayout layout_;
  Graph traced_graph_;
  Joint joint_;  ///< for all traceable tangents, lowered up to the split
  std::vector<Value> saved_;
  Graph split_forward_;
  Graph forward_;
  std::vector<std::shared_ptr<const detail::HostReads>> host_reads_;
  std::vector<at::Tensor> free_variables_;
  std::vector<at::Tensor> captured_arguments_;
  std::vector<size_t> gradient_primals_;
  std::vector<size_t> gradient_crossings_;
  std::vector<std::vector<size_t>> tangents_of_stage_;
  std::vector<size_t> reshaped_;
  std::vector<ResidualSource> residual_sources_;
  bool draws_random_ = false;
  std::vector<std::exception_ptr> tangent_errors_;  ///< per tangent
  mutable std::once_flag rules_made_;
  mutable std::unique_ptr<const ReleaseRules> release_rules_;
  mutable std::mutex mutex_;  ///< guards the trace, which grows with each backward, and halves_
  mutable std::vector<Half> halves_;
};

/// Returns which values of a joint graph its gradients depend on.
std::vector<bool> needed_for_gradients(const Joint& joint);

/// Captures the function for arguments that look like these; null if its result holds other constants than the last
/// time. Throws what tracing throws.
using CaptureAt =
    std::function<std::shared_ptr<CapturedFunction>(const std::vector<at::Tensor>& arguments, const CaptureMode& mode)>;

}  // namespace diptych::detail
