// Tensors of the host as they pass to a program.
#pragma once
#include <ATen/core/Tensor.h>

#include "diptych/xla/hlo/lower_graph.h"

namespace diptych::detail {

/// Returns a tensor of the slot's sizes as it passes, contiguous. One that lies as the graph says is neither copied nor
/// takes a call of the dispatcher, of which a program with many inputs would feel each: the result is an alias of it.
at::Tensor as_passed(const at::Tensor& tensor, const HloSlot& slot);

}  // namespace diptych::detail
