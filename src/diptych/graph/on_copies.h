// Operators of libraries that write to their arguments, in a form that a graph can hold.
//
// Note [On copies]: a graph computes values and writes to none. LibTorch's own operators have functional forms for
// this; an operator of a library that declares Tensor(a!) has none, so one is made: an operator of the namespace
// "on_copies" that takes the same arguments, calls the library's operator on copies of those that it writes to, and
// returns the copies behind the results. In a graph it is an operator like any other: "on_copies.lib__scale_" is
// printed, stored and found again by that name, and may be merged or dropped as other operators of libraries may. It
// is made of operators that autograd and transforms know, so they see what they would see in eager.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace diptych::detail {

/// Returns the form of `op` that works on copies, made when it is first asked for; nullopt if `op` writes to no
/// argument, or its schema says more than that it writes elements of tensors: it returns views, writes to other types,
/// or takes or returns objects. Its results are those of `op` that are no arguments, then one for each argument that
/// `op` writes to, in order: a tensor (undefined for an absent one), or a list. Threads: any.
std::optional<c10::OperatorHandle> on_copies(const c10::OperatorHandle& op);

/// Returns the form that has this name; nullopt if it is no name of such a form, or no operator has it. Threads: any.
std::optional<c10::OperatorHandle> find_on_copies(const c10::OperatorName& name);

/// Whether a result of an operator is an argument that it has written to.
inline bool is_written_argument(const c10::Argument& result) {
  return result.alias_info() != nullptr && result.alias_info()->isWrite();
}

}  // namespace diptych::detail
