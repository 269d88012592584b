// Numbers that a traced function has asked for and that stay open: their values are asked only where the host needs
// them.
//
// Note [Open numbers]
// `x / total.item()` hands a number to the host which goes straight back into a tensor. If the capture held for that
// number alone, each call would be one of its own. So a binding may hand out a number that is a tensor of the trace
// inside, as a symbolic number of LibTorch's, of which its language asks the value only where that decides something.
// Where an operator gets such a number it gets the tensor: as a value of the graph it is computed anew in each call.
// An operator that takes only numbers asks for the value, and the capture holds for that.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/SymNodeImpl.h>

namespace diptych::detail {

/// What a binding knows of open numbers.
struct OpenNumbers {
  /// The tensor f64[] that a symbolic number is; undefined if it is none of the binding's.
  at::Tensor (*of_node)(const c10::SymNodeImpl& node);
  /// The same for a tensor that LibTorch has made of a number, whose value it does not know.
  at::Tensor (*of_tensor)(const at::Tensor& number);
  /// Asks for the value of such a tensor.
  at::Scalar (*value_of_tensor)(const at::Tensor& number);
};
/// Requires: `numbers` lives for ever.
void set_open_numbers(const OpenNumbers* numbers);

/// Calls an operator that gets open numbers among the arguments that end the stack: with their tensors or, where it
/// takes only numbers, with their values. Returns false, and does nothing, if there are none.
bool call_with_open_numbers(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace diptych::detail
