// One function captured at several sizes, and the graphs of which all these captures are instances.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "diptych/compile/captured_function.h"
#include "diptych/compile/tensor_guards.h"
#include "diptych/passes/generalize_sizes.h"

namespace diptych::detail {

/// The source of the graphs of a function with dynamic sizes. Threads: any.
class SizedFunctions final : public GraphSource {
 public:
  /// `guards` are those of the arguments and free variables, `pattern` is that of their geometry. `own` is the capture
  /// on the arguments themselves where the function asks for values: what it was answered is assumed at other sizes.
  /// Returns null, with the reason in `why`, if sizes must stay as they are.
  static std::shared_ptr<const SizedFunctions> make(const SizePattern& pattern, const TensorGuards& guards,
                                                    const std::vector<at::Tensor>& arguments, const CaptureAt& capture,
                                                    std::shared_ptr<CapturedFunction> own, SizeTrust trust,
                                                    std::string& why);

  /// Whether the graphs are those of `trace`, a capture of the function where the symbols have these values: any branch
  /// that the function takes because of a size shows there. Nullopt if values that the function asked for have led
  /// another way. Requires: an extent other than kCallable.
  std::optional<bool> agrees(const CapturedFunction& trace, const SymbolValues& symbols) const;
  /// Keeps a trace that agrees with the graphs, if what differentiates its gradients is code of the user's: that may do
  /// at one size what it does at no other, and is run for the sizes of a call alone. The last ones are kept.
  void keep(std::shared_ptr<const CapturedFunction> trace, const SymbolValues& symbols) const;
  std::shared_ptr<const GraphSource> at(c10::IntArrayRef sizes) const override;
  /// The values of the symbols at which the function was captured.
  const std::vector<SymbolValues>& points() const { return points_; }

  const SizePattern& pattern() const { return pattern_; }
  /// What the function asks for, at all sizes.
  const std::vector<ValueQuestion>& questions() const { return questions_; }

  /// The capture at the sizes of the call that asked for dynamic sizes.
  const CapturedFunction& captured() const override { return *members_[0]; }
  const Graph& forward() const override { return forward_; }
  const Graph& epilogue() const override { return epilogue_; }
  const std::vector<TensorMeta>& hidden_metas() const override { return hidden_metas_; }
  Graph handed_on() const override { return handed_on_; }
  Graph backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const override;
  Joint joint(const std::vector<bool>& defined) const override;
  bool is_dynamic() const override { return true; }
  std::optional<Value> add_sizes(Graph& graph, SlotKind kind) const override;

 private:
  Graph unify(const std::function<Graph(CapturedFunction&)>& graph_of, const char* what) const;
  Graph with_sizes(Graph forward) const;

  SizePattern pattern_;
  std::vector<SymbolValues> points_;
  std::vector<std::shared_ptr<CapturedFunction>> members_;  ///< one per point
  Graph forward_;
  Graph epilogue_;
  std::vector<TensorMeta> hidden_metas_;
  Graph traced_;  ///< the joint graph as it was traced
  std::vector<ValueQuestion> questions_;
  Graph handed_on_;

  /// A capture at sizes of a call.
  struct Kept {
    SymbolValues symbols;
    std::shared_ptr<const CapturedFunction> trace;
  };
  mutable std::mutex mutex_;
  mutable std::deque<Kept> kept_;
};

}  // namespace diptych::detail
