// A captured function, compiled: what a cache entry runs.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diptych/compile/captured_function.h"
#include "diptych/compile/value_path.h"
#include "diptych/interpreter/program.h"

namespace diptych::detail {

class SecondOrder;

/// The strides that a backward graph needs of a tangent, if the legality of some node depends on them.
struct WantedStrides {
  std::vector<int64_t> strides;  ///< as traced
  bool is_dynamic = false;       ///< then only the order of the dimensions counts, and the tangent is dense
};

/// The backward of a compiled function for one set of defined tangents and one autocast state.
struct BackwardVariant {
  std::vector<bool> defined;
  Graph graph;
  std::shared_ptr<const Executable> executable;
  std::vector<bool> reads_residual;                          ///< per residual
  std::vector<std::optional<WantedStrides>> wanted_strides;  ///< per tangent
  /// By the capture that they are of; made when a backward is itself differentiated.
  mutable std::map<std::shared_ptr<const GraphSource>, std::shared_ptr<SecondOrder>> second_orders;
  mutable std::shared_ptr<const Program> inlined;  ///< null until a captured backward takes it in
};

/// A captured function with its executables: the forward's, and those of backwards as they are first needed.
/// Threads: call() and backward() from any number at once.
class CompiledFunction : public std::enable_shared_from_this<CompiledFunction> {
 public:
  /// Compiles the forward. `path`: null for a function that asks for no values; else the forward takes what its
  /// questions hand on. Errors: UserError from compilers.
  explicit CompiledFunction(std::shared_ptr<const GraphSource> source, std::shared_ptr<const ValuePath> path = nullptr);
  ~CompiledFunction();

  /// What is known of the function at all sizes.
  const CapturedFunction& captured() const { return captured_; }
  const AotOptions& options() const { return captured_.options(); }
  const ForwardPlan& plan() const { return captured_.plan(); }
  const Graph& forward_graph() const { return source_->forward(); }
  bool is_dynamic() const { return source_->is_dynamic(); }
  /// The metadata of plan().hidden, whose sizes may be dynamic in this function.
  const std::vector<TensorMeta>& hidden_metas() const { return source_->hidden_metas(); }
  /// Whether the interpreter may run any backward of this function, say as a part of another graph.
  bool may_be_interpreted() const { return may_be_interpreted_; }
  /// What runs the graphs that are compiled so far: "forward", then a "backward" for each set of tangents.
  std::vector<std::pair<std::string, std::shared_ptr<const Executable>>> executables() const;
  /// A number that no other function of this process has, or had.
  uint64_t serial_number() const { return serial_number_; }

  /// Whether the forward takes results of questions: see Note [Segments].
  bool takes_results() const { return !taken_.empty(); }
  /// Runs the function as eager would, with the same mutations, aliases and requires_grad. `handed_on`: as
  /// ValuePath::handed_on() returns them for this call; empty if they are not known. Requires: the guards hold.
  /// See Note [A call].
  std::vector<at::Tensor> call(c10::ArrayRef<const at::Tensor*> arguments,
                               std::vector<at::Tensor> handed_on = {}) const;
  /// Makes output number `index`, one that is made outside the graph, from slots that have their history.
  at::Tensor make_output(size_t index, const std::vector<at::Tensor>& primals,
                         const std::vector<at::Tensor>& slots) const;

  /// Returns the variant for the tangents marked in `defined`, and makes it if it is the first of its kind.
  std::shared_ptr<const BackwardVariant> backward(const std::vector<bool>& defined) const;
  /// Returns the variant for these gradients only, as if the others led nowhere; `gradients` is empty for all.
  std::shared_ptr<const BackwardVariant> backward_part(const std::vector<bool>& defined,
                                                       const std::vector<bool>& gradients) const;
  /// Returns the graph of `variant` without folded constants, to be run on stand-ins.
  std::shared_ptr<const Program> inlined(const BackwardVariant& variant) const;
  /// Returns the gradients of `variant`, which has tangents of one stage, as a differentiable function of the gradient
  /// primals and of the values of crossings to later stages. `sizes`: the values of symbols in the call, if sizes are
  /// dynamic. Requires: `variant` is of this function.
  std::shared_ptr<SecondOrder> second_order(const BackwardVariant& variant, size_t stage, c10::IntArrayRef sizes) const;
  /// Whether derivatives of the gradients of a stage start from the value of a crossing.
  bool starts_at(size_t crossing, size_t stage) const;

 private:
  struct KeyedVariant {
    std::vector<bool> defined;
    std::vector<bool> gradients;  ///< empty for all
    GlobalState state;
    std::shared_ptr<BackwardVariant> variant;
  };

  std::shared_ptr<SecondOrder> make_second_order(const std::shared_ptr<const GraphSource>& source,
                                                 const std::vector<bool>& defined, size_t stage) const;
  Graph graph_for(const std::vector<bool>& defined, const SimplifyOptions& simplify) const;
  void compile_variant(BackwardVariant& variant) const;
  std::shared_ptr<BackwardVariant> find_variant(const std::vector<bool>& defined, const std::vector<bool>& gradients,
                                                const GlobalState& state) const;
  std::vector<at::Tensor> generator_states_before() const;
  Graph forward_to_compile();
  std::vector<at::Tensor> run_forward(const std::vector<at::Tensor>& primals, std::vector<at::Tensor> handed_on) const;
  std::vector<at::Tensor> take_residuals(std::vector<at::Tensor>& slots) const;
  std::vector<at::Tensor> gradient_primals_of(const std::vector<at::Tensor>& primals) const;
  std::vector<at::Tensor> make_outputs(const std::vector<at::Tensor>& primals, const std::vector<at::Tensor>& slots,
                                       std::vector<at::Tensor>&& made) const;
  void accumulate_gradients(const std::vector<at::Tensor>& primals, std::vector<at::Tensor>& outputs) const;
  std::vector<at::Tensor> make_views(const std::vector<at::Tensor>& primals,
                                     const std::vector<at::Tensor>& slots) const;

  static uint64_t next_serial_number();

  uint64_t serial_number_ = next_serial_number();
  std::shared_ptr<const GraphSource> source_;
  const CapturedFunction& captured_;  ///< owned by source_
  std::shared_ptr<const ValuePath> path_;
  std::vector<size_t> taken_;  ///< those of the results that questions hand on
  bool may_be_interpreted_ = false;
  std::shared_ptr<const Executable> forward_executable_;
  std::unique_ptr<Program> epilogue_;
  mutable std::mutex variants_mutex_;
  mutable std::vector<KeyedVariant> variants_;
};

}  // namespace diptych::detail
