// One captured function, compiled: what a cache entry runs.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/compile/options.h"
#include "diptych/interpreter/program.h"
#include "diptych/passes/simplify.h"
#include "diptych/trace/global_state.h"
#include "diptych/trace/recorder.h"

namespace diptych {

class ReleaseRules;
class SecondOrder;
class SizedFunctions;

/// What sizes and strides a backward graph wants of a tangent, if some node's legality depends on them.
struct WantedStrides {
  std::vector<int64_t> strides;  ///< as traced
  bool is_dynamic = false;       ///< then only the order of the dimensions counts, which fill their memory
};

/// How much of a capture is made.
enum class CaptureExtent : uint8_t {
  kCallable,  ///< all: it can be called
  kGraphs,    ///< what was traced, and its graphs, with constants as they were; nothing is compiled
  kTrace,     ///< what was traced alone
};

/// The backward of a compiled function for one set of defined tangents and one autocast state.
struct BackwardVariant {
  std::vector<bool> defined;
  Joint joint;
  Graph graph;
  std::shared_ptr<const Executable> executable;              ///< null until the first backward of this kind
  bool has_graph = false;                                    ///< `graph` and what follows from it are there
  std::vector<bool> reads_residual;                          ///< per residual
  std::vector<std::optional<WantedStrides>> wanted_strides;  ///< per tangent
  mutable std::shared_ptr<SecondOrder> second_order;         ///< null until a backward is itself differentiated
  mutable std::vector<bool> starts;                          ///< which gradient primals and crossings that takes
  mutable std::shared_ptr<const Program> inlined;            ///< null until a captured backward takes it in
};

/// A capture with its forward executable; backwards are traced and compiled when first needed.
/// Threads: call() and backward() from any number at once.
class CompiledFunction : public std::enable_shared_from_this<CompiledFunction> {
 public:
  /// Captures `function` on `arguments` under the caller's grad mode and autocast state.
  /// Errors: as JointCapture; UserError from partitioners and compilers.
  CompiledFunction(const FlatFunction& function, const std::vector<at::Tensor>& arguments,
                   const std::vector<std::string>& paths, AotOptions options,
                   CaptureExtent extent = CaptureExtent::kCallable);
  /// The function for all the sizes that `sized` stands for.
  explicit CompiledFunction(std::shared_ptr<const SizedFunctions> sized);
  ~CompiledFunction();

  /// Runs the function as eager would: mutates, aliases and requires grad alike. Requires: the guards hold.
  std::vector<at::Tensor> call(c10::ArrayRef<const at::Tensor*> arguments) const;

  /// A number that no other function of this process has, or had.
  uint64_t serial_number() const { return serial_number_; }

  /// The variant for the tangents marked in `defined`, made if it is the first of its kind.
  std::shared_ptr<const BackwardVariant> backward(const std::vector<bool>& defined) const;

  /// The same for these gradients only, as if the others led nowhere; `gradients` is empty for all.
  std::shared_ptr<const BackwardVariant> backward_part(const std::vector<bool>& defined,
                                                       const std::vector<bool>& gradients) const;

  /// The graph of `variant` without constants, to be run on stand-ins.
  std::shared_ptr<const Program> inlined(const BackwardVariant& variant) const;

  /// The gradients of `variant`, which has tangents of one stage, as a differentiable function of the gradient primals
  /// and of what crossings to later stages stand for. Requires: `variant` is of this function.
  std::shared_ptr<SecondOrder> second_order(const BackwardVariant& variant, size_t stage) const;

  /// Output number `index`, which is made outside the graph, from slots that have their history.
  at::Tensor make_output(size_t index, const std::vector<at::Tensor>& primals,
                         const std::vector<at::Tensor>& slots) const;
  /// The tangents that arrive at a stage, by number.
  const std::vector<size_t>& tangents_of(size_t stage) const { return tangents_of_stage_[stage]; }
  /// What plan().hidden are in this function, whose sizes may be dynamic.
  const std::vector<TensorMeta>& hidden_metas() const;
  /// Crossings whose values a gradient depends on.
  const std::vector<size_t>& gradient_crossings() const { return gradient_crossings_; }
  /// Whether derivatives of the gradients of a stage start from what a crossing stands for.
  bool starts_at(size_t crossing, size_t stage) const;
  /// Whether it is a result of that stage, in a slot.
  bool is_own_result(size_t crossing, size_t stage) const;
  const ReleaseRules& release_rules() const;
  /// What the backward reads on the host, as it is now. See Note [What a backward reads].
  detail::HostState host_state() const;

  /// Which tangents a backward can be traced for, as eager has one for them.
  std::vector<bool> traceable_tangents() const;
  /// The joint graph whose gradients can be differentiated again.
  Joint joint(const std::vector<bool>& defined) const;

  const AotOptions& options() const { return options_; }
  const ForwardPlan& plan() const { return capture_->plan(); }
  bool is_dynamic() const { return sized_ != nullptr; }
  /// What stands behind dynamic sizes. Requires: is_dynamic().
  const SizedFunctions& sized() const { return *sized_; }
  /// The joint graph as it was traced, without dead nodes. Requires: an extent other than kCallable.
  const Graph& traced_graph() const { return traced_graph_; }
  bool is_differentiable() const { return !plan().differentiable.empty(); }
  /// The split that the forward graph and the residuals follow. Requires: is_differentiable().
  const Split& split() const { return split_; }
  const Graph& forward_graph() const { return forward_; }
  const std::vector<at::Tensor>& free_variables() const { return free_variables_; }
  /// Appends to the addresses of the arguments those of the free variables, which guards check, too.
  template <class Tensors>
  void append_free_variables(Tensors& tensors) const {
    const size_t begin = tensors.size();
    for (const at::Tensor& tensor : free_variables_) tensors.push_back(&tensor);
    for (const auto& derived : plan().derived) {
      tensors[begin + derived.free_variable] = &detail::autograd_base(*tensors[derived.base_of]);
    }
  }
  /// Of the arguments of a call and the free variables, those that it writes to.
  std::vector<at::Tensor> written(c10::ArrayRef<const at::Tensor*> arguments) const;
  size_t num_arguments() const { return layout_.num_arguments; }
  /// Primals whose values a gradient depends on: what a backward of the backward starts from.
  const std::vector<size_t>& gradient_primals() const { return gradient_primals_; }
  bool draws_random() const { return draws_random_; }
  /// Which primal or output each residual shares its storage with, so that a later mutation of it is noticed.
  struct ResidualSource {
    enum class Kind : uint8_t { kOwn, kPrimal, kOutput } kind = Kind::kOwn;
    size_t index = 0;
  };
  const std::vector<ResidualSource>& residual_sources() const { return residual_sources_; }

 private:
  Joint capture_joint();
  void make_graphs(Joint joint);
  void compile_forward();
  void find_gradient_primals(const Joint& joint);
  void find_residual_sources();
  void find_stages();
  std::shared_ptr<BackwardVariant> make_variant(Joint joint, const std::vector<bool>& defined) const;
  Graph graph_of(const BackwardVariant& variant, const SimplifyOptions& simplify) const;
  void finish_variant(BackwardVariant& variant) const;
  void compile_variant(BackwardVariant& variant) const;
  std::vector<at::Tensor> primals_of(c10::ArrayRef<const at::Tensor*> arguments) const;
  std::vector<at::Tensor> make_outputs(const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& slots,
                                       std::vector<at::Tensor>&& made) const;
  std::vector<at::Tensor> make_views(const std::vector<at::Tensor>& primals,
                                     const std::vector<at::Tensor>& slots) const;
  std::shared_ptr<BackwardVariant> find_variant(const std::vector<bool>& defined, const std::vector<bool>& gradients,
                                                const GlobalState& state) const;

  static uint64_t next_serial_number();

  uint64_t serial_number_ = next_serial_number();
  AotOptions options_;
  CaptureExtent extent_ = CaptureExtent::kCallable;
  SimplifyOptions simplify_;
  std::shared_ptr<const SizedFunctions> sized_;  ///< null if sizes are what they were when captured
  std::shared_ptr<JointCapture> capture_;
  JointLayout layout_;
  Split split_;
  std::vector<std::shared_ptr<const detail::HostReads>> host_reads_;
  Graph traced_graph_;
  Graph forward_;
  std::shared_ptr<const Executable> forward_executable_;
  std::unique_ptr<Program> epilogue_;
  std::vector<at::Tensor> free_variables_;
  std::vector<size_t> gradient_primals_;
  std::vector<size_t> gradient_crossings_;
  std::vector<std::vector<size_t>> tangents_of_stage_;
  std::vector<bool> is_mutated_;  ///< per primal, data or geometry
  std::vector<size_t> reshaped_;  ///< primals whose geometry is changed
  std::vector<ResidualSource> residual_sources_;
  bool draws_random_ = false;
  /// Per tangent, what tracing its backward threw: thrown when, and only if, a backward comes with it, as in eager.
  std::vector<std::exception_ptr> tangent_errors_;

  struct KeyedVariant {
    std::vector<bool> defined;
    std::vector<bool> gradients;  ///< empty for all
    GlobalState state;
    std::shared_ptr<BackwardVariant> variant;
  };
  mutable std::once_flag rules_made_;
  mutable std::unique_ptr<const ReleaseRules> release_rules_;
  mutable std::mutex variants_mutex_;
  mutable std::vector<KeyedVariant> variants_;
};

}  // namespace diptych
