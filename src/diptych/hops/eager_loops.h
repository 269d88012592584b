// Higher-order operators as loops over the user's own functions, on whatever tensors these accept. They run the calls
// that no graph can represent. See Note [Transformed calls].
#pragma once
#include <string>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// Returns the last carries, then the stacks, of `length` steps. Errors: UserError as scan().
std::vector<at::Tensor> scan_in_eager(const FlatFunction& step, const Flattened& init, const Flattened& xs,
                                      int64_t length, bool reverse);

/// Returns the last carries. Errors: UserError as while_loop(); torch's for a condition that differs within a batch.
std::vector<at::Tensor> while_loop_in_eager(const FlatFunction& condition, const FlatFunction& step,
                                            const Flattened& init);

/// Returns the chosen function's results; where the predicate differs within a batch, runs both functions and chooses
/// element by element. Errors: UserError as cond().
std::vector<at::Tensor> cond_in_eager(const at::Tensor& predicate, const FlatFunction& if_true,
                                      const FlatFunction& if_false, const Flattened& arguments);

/// Checks that two branches agree. Errors: UserError, by path, where their results differ in number, sizes, dtype or
/// device.
void check_branches_agree(const std::vector<TensorMeta>& yes, const std::vector<TensorMeta>& no,
                          const std::vector<std::string>& paths);

/// Checks the condition of a loop. Errors: UserError if it is not a truth value.
void check_condition(const TensorMeta& truth);

}  // namespace diptych::detail
