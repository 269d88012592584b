// Where the graphs of a compiled function come from: one capture, or several at other sizes.
#pragma once
#include <c10/util/ArrayRef.h>

#include <memory>
#include <optional>
#include <vector>

#include "diptych/passes/partition.h"
#include "diptych/passes/simplify.h"

namespace diptych::detail {

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
  /// The graph of those outputs that are views taken by the function; see ForwardPlan::epilogue.
  virtual const Graph& epilogue() const = 0;
  /// The metadata of ForwardPlan::hidden in these graphs.
  virtual const std::vector<TensorMeta>& hidden_metas() const = 0;
  /// Returns the backward for the tangents marked in `defined`, under the thread's autocast state.
  /// Errors: UserError if it is not known to be the same graph at all sizes; what tracing throws.
  virtual Graph backward(const std::vector<bool>& defined, const SimplifyOptions& simplify) const = 0;
  /// Returns the joint graph for these tangents, whose gradients can be differentiated again. Errors: as backward().
  virtual Joint joint(const std::vector<bool>& defined) const = 0;

  /// The graph of what the questions hand on, lowered as the forward is, from the same inputs. See Note [Segments].
  virtual Graph handed_on() const = 0;

  /// Whether sizes in the graphs are dynamic. Backward graphs then have one more residual, named "sizes": a tensor
  /// without elements whose sizes are the symbols' values, since not all of them follow from the other residuals.
  virtual bool is_dynamic() const { return false; }
  /// Returns a capture at these values of the symbols, as that tensor has them; null if sizes are static, or none at
  /// these sizes is kept: see SizedFunctions::keep().
  virtual std::shared_ptr<const GraphSource> at(c10::IntArrayRef /*sizes*/) const { return nullptr; }
  /// Adds such an input to `graph`; returns nullopt if sizes are static.
  virtual std::optional<Value> add_sizes(Graph& /*graph*/, SlotKind /*kind*/) const { return std::nullopt; }
};

}  // namespace diptych::detail
