// One function captured at several sizes, and the graphs that all of these captures are cases of.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/compiled_function.h"
#include "diptych/compile/tensor_guards.h"
#include "diptych/passes/generalize_sizes.h"

namespace diptych {

/// Captures the function for arguments that look like these; null if its result holds constants that were others the
/// last time. Throws what tracing throws.
using CaptureAt =
    std::function<std::shared_ptr<CompiledFunction>(const std::vector<at::Tensor>& arguments, CaptureExtent extent)>;

/// What a function with dynamic sizes is made from. Graphs of its backwards have one residual more, named "sizes": a
/// tensor of no elements whose sizes are the symbols' values, as not all of them follow from the other residuals.
/// Threads: any.
class SizedFunctions {
 public:
  /// `guards` are those of the arguments and free variables, `pattern` that of their geometry. Null, with the reason in
  /// `why`, if sizes must stay as they are.
  static std::shared_ptr<const SizedFunctions> make(const SizePattern& pattern, const TensorGuards& guards,
                                                    const std::vector<at::Tensor>& arguments, const CaptureAt& capture,
                                                    SizeTrust trust, std::string& why);

  /// Whether the graphs are those of `trace`, a capture of the function where the symbols have these values: any branch
  /// that the function takes by a size shows there. Requires: an extent other than kCallable.
  bool agrees(const CompiledFunction& trace, const SymbolValues& symbols) const;
  /// The values of the symbols at which the function was captured.
  const std::vector<SymbolValues>& points() const { return points_; }

  /// The capture at the sizes of the call that asked for this.
  const CompiledFunction& first() const { return *members_[0]; }
  const SizePattern& pattern() const { return pattern_; }
  const Graph& forward() const { return forward_; }
  const Graph& epilogue() const { return epilogue_; }
  const std::vector<TensorMeta>& hidden_metas() const { return hidden_metas_; }
  /// The backward for these tangents. Errors: UserError if it is another one at other sizes.
  Graph backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const;
  /// Adds such a tensor to the graph's inputs.
  Value add_sizes(Graph& graph, SlotKind kind) const;
  /// The joint graph whose gradients can be differentiated again. Errors: as backward().
  Joint joint(const std::vector<bool>& defined) const;

 private:
  Graph unify(const std::function<Graph(CompiledFunction&)>& graph_of, const char* what) const;
  Graph with_sizes(Graph forward) const;

  SizePattern pattern_;
  std::vector<SymbolValues> points_;
  std::vector<std::shared_ptr<CompiledFunction>> members_;  ///< one per point
  Graph forward_;
  Graph epilogue_;
  std::vector<TensorMeta> hidden_metas_;
  Graph traced_;  ///< the joint graph as it is traced
};

}  // namespace diptych
