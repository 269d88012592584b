// Sums over the steps of a loop, with less work than stacking what each step makes: the sum of matrix products is one
// product of longer matrices, the sum of views is a view of the sum.
#pragma once
#include "diptych/ops/batching.h"

namespace diptych {

/// Returns which operands of `node` must be known as batched values for sum_steps() to sum its only result over all
/// steps without computing it in any; empty where no rule fits. For operands that are themselves to be summed, such as
/// those of a view, the rule asks for their sums.
enum class SumRule : uint8_t { kNone, kOfBatched, kOfSums };
SumRule sum_rule(const Graph& body, const Node& node, const std::function<bool(Value)>& is_stacked);

/// Looks up the sum over all steps of a value of the body.
using FindSum = std::function<Value(Value)>;

/// Appends nodes that compute the sum over `length` steps of the result of `node`, by its rule.
/// Requires: sum_rule() is not kNone for the same operands.
Value sum_steps(Emitter& emitter, const Graph& body, const Node& node, const FindBatched& find, const FindSum& find_sum,
                int64_t length);

/// Appends the sum over all steps of a value, in the dtype of `step`.
Value sum_steps(Emitter& emitter, BatchedValue value, const TensorMeta& step, int64_t length);

}  // namespace diptych
