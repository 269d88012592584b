// Operators whose operands may lie on different devices.
#pragma once
#include "diptych/graph/op.h"

namespace diptych::detail {

/// Whether operands of one dimension or more may lie on several devices: LibTorch's own operators that copy from one to
/// another, take indices or lengths of the host, or read only sizes of an operand; of libraries' operators, which check
/// by themselves, all.
bool takes_several_devices(const Op& op);

}  // namespace diptych::detail
