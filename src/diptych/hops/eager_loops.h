// Higher-order operators as loops over the user's own functions, on whatever tensors these take: what calls do that no
// graph stands for. See Note [Transformed calls].
#pragma once
#include <string>
#include <vector>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// The last carries, then the stacks, of `length` steps. Errors: UserError as scan()'s.
std::vector<at::Tensor> scan_in_eager(const FlatFunction& step, const Flattened& init, const Flattened& xs,
                                      int64_t length, bool reverse);

/// The last carries. Errors: UserError as while_loop()'s; torch's for a condition that differs within a batch.
std::vector<at::Tensor> while_loop_in_eager(const FlatFunction& condition, const FlatFunction& step,
                                            const Flattened& init);

/// The chosen function's results; where the predicate differs within a batch, both functions', chosen element by
/// element. Errors: UserError as cond()'s.
std::vector<at::Tensor> cond_in_eager(const at::Tensor& predicate, const FlatFunction& if_true,
                                      const FlatFunction& if_false, const Flattened& arguments);

/// Errors: UserError, by path, where the results of two branches differ in number, sizes, dtype or device.
void check_branches_agree(const std::vector<TensorMeta>& yes, const std::vector<TensorMeta>& no,
                          const std::vector<std::string>& paths);

/// Errors: UserError for the condition of a loop that is no truth value.
void check_condition(const TensorMeta& truth);

}  // namespace diptych::detail
