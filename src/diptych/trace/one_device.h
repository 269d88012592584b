// Operands that lie on different devices.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Device.h>

namespace diptych::detail {

/// Refuses a call whose operands of one dimension or more lie on these two devices, as the operator's kernel does.
/// Libraries' operators check by themselves, and few of LibTorch's take operands of several devices.
/// Errors: c10::Error with eager's words.
void check_one_device(const c10::OperatorHandle& op, c10::Device first, c10::Device other);

}  // namespace diptych::detail
