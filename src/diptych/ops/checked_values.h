// What a decomposition computes with where eager's kernel refuses some values.
#pragma once

namespace diptych::detail {

/// Registers diptych.checked(Tensor self, Tensor is_refused, str message, bool is_index) -> Tensor, unless it is there:
/// it returns a copy of `self`, whose elements are those that `is_refused` tells of. If one is refused, its kernel
/// raises an error with `message`, in which {} is the first such element: an IndexError if what is checked is an index,
/// else a plain one. Threads: any.
void register_checked_values();

}  // namespace diptych::detail
