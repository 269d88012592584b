// Sums over the steps of a loop, with less work than stacking the results of all steps: the sum of matrix products is
// one product of longer matrices, and the sum of views is a view of the sum.
#pragma once
#include "diptych/ops/batching.h"

namespace diptych::detail {

/// Returns by which rule sum_steps() can sum the only result of `node` over all steps without computing it in any step:
/// kOfBatched needs the operands as batched values, kOfSums needs the sums of the operands, as for a view, and kNone
/// means that no rule fits.
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

}  // namespace diptych::detail
