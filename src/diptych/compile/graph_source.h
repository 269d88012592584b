// Where the graphs of a compiled function come from: one capture, or several at other sizes.
#pragma once
#include <optional>
#include <vector>

#include "diptych/passes/partition.h"
#include "diptych/passes/simplify.h"

namespace diptych {

class CapturedFunction;

/// The graphs of a function and what is known of it. Threads: any.
class GraphSource {
 public:
  GraphSource() = default;
  virtual ~GraphSource() = default;
  GraphSource(const GraphSource&) = delete;
  GraphSource& operator=(const GraphSource&) = delete;

  /// What the captures behind the graphs agree on: all but the graphs themselves and sizes in them.
  virtual const CapturedFunction& captured() const = 0;

  virtual const Graph& forward() const = 0;
  /// Makes outputs that are views which the function made; see ForwardPlan::epilogue.
  virtual const Graph& epilogue() const = 0;
  /// What ForwardPlan::hidden are in these graphs.
  virtual const std::vector<TensorMeta>& hidden_metas() const = 0;
  /// The backward for the tangents marked in `defined`, under the thread's autocast state.
  /// Errors: UserError where that is not known to be the same graph at all sizes; what tracing throws.
  virtual Graph backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const = 0;
  /// The joint graph for these tangents whose gradients can be differentiated again. Errors: as backward().
  virtual Joint joint(const std::vector<bool>& defined) const = 0;

  /// Whether sizes in the graphs are dynamic. Graphs of backwards then have one residual more, named "sizes": a tensor
  /// of no elements whose sizes are the symbols' values, as not all of them follow from the other residuals.
  virtual bool is_dynamic() const { return false; }
  /// Adds such an input to `graph`; none where sizes are static.
  virtual std::optional<Value> add_sizes(Graph& /*graph*/, SlotKind /*kind*/) const { return std::nullopt; }
};

}  // namespace diptych
