// The autograd node behind the results of a hop.
#pragma once
#include "diptych/hops/hop.h"

namespace diptych::detail {

/// Gives `results` the history of a call of `hop` on `operands`, whose forward, or what amounts to it, has run and
/// given `residuals`. Returns the results.
std::vector<at::Tensor> attach_history(const HopPtr& hop, const std::vector<at::Tensor>& operands,
                                       std::vector<at::Tensor> results, const std::vector<at::Tensor>& residuals);

}  // namespace diptych::detail
