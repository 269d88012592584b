// Computing many steps of a loop at once: for a node of the loop's body, nodes that compute its results for all steps,
// with the steps as a new first dimension. The rules are a table by operator.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "diptych/ops/emitter.h"

namespace diptych::detail {

/// A value of a body in the graph around it.
struct BatchedValue {
  Value value;
  bool is_stacked = false;  ///< [steps, ...], one row per step; otherwise it is the same in every step
};

/// Looks up the value of the outer graph that stands for a value of the body.
using FindBatched = std::function<BatchedValue(Value)>;

/// Appends nodes that compute what `node` of `body` computes in each of `length` steps, and returns the stacked
/// results; nullopt where no rule fits, in which case nodes may have been appended. Whether a rule fits depends on the
/// node, on sizes, and on which operands are stacked, never on strides. Results have the elements of the steps'
/// results; strides may differ. Requires: at least one operand is stacked; the node has no effect; metadata is static.
std::optional<std::vector<Value>> batch_node(Emitter& emitter, const Graph& body, const Node& node,
                                             const FindBatched& find, int64_t length);

/// Returns whether batch_node() would succeed for operands that are stacked as `is_stacked` says.
bool can_batch(const Graph& body, const Node& node, const std::function<bool(Value)>& is_stacked, int64_t length);

/// Returns whether `node` has static metadata throughout and could be computed elsewhere: it has no effect.
bool is_movable(const Graph& body, const Node& node);

/// One node to batch, and its operands in the outer graph.
class BatchedCall {
 public:
  BatchedCall(Emitter& emitter, const Graph& body, const Node& node, const FindBatched& find, int64_t length);

  Emitter& emitter() const { return emitter_; }
  const Node& node() const { return node_; }
  int64_t length() const { return length_; }
  /// Operands in terms of the outer graph, for rules to change and hand to emit().
  const std::vector<Operand>& operands() const { return operands_; }
  bool is_tensor(size_t i) const;
  bool is_stacked(size_t i) const { return stacked_[i]; }
  bool is_list_stacked(size_t i) const;  ///< whether all tensors of a list are stacked
  bool any_list_stacked() const;
  Expr tensor(size_t i) const { return {&emitter_, std::get<Value>(operands_[i])}; }
  /// The metadata of operand `i` in one step, and of the result.
  const TensorMeta& step(size_t i) const { return body_.meta(std::get<Value>(node_.operands[i])); }
  int64_t step_rank(size_t i) const { return static_cast<int64_t>(step(i).sizes.size()); }
  const TensorMeta& result(size_t i = 0) const { return body_.meta(node_.outputs[i]); }
  /// [steps, sizes of the result...]
  std::vector<int64_t> stacked_sizes(size_t result_index = 0) const;
  const c10::IValue* constant(size_t i) const { return std::get_if<c10::IValue>(&operands_[i]); }
  /// Appends the node's operator on other operands.
  std::vector<Value> emit(std::vector<Operand> operands) const;
  const Graph& body() const { return body_; }

 private:
  Emitter& emitter_;
  const Graph& body_;
  const Node& node_;
  int64_t length_;
  std::vector<Operand> operands_;
  std::vector<bool> stacked_;
  std::vector<std::vector<bool>> stacked_elements_;
};

using BatchingRule = std::optional<std::vector<Value>> (*)(const BatchedCall&);

/// Returns the operator's own rule, or null if it has none.
BatchingRule find_product_rule(const Op& op);
/// Returns `expr` with other sizes; a view where its strides allow that.
Expr reshaped(Expr expr, std::vector<int64_t> sizes);

}  // namespace diptych::detail
