// Where the elements of a stand-in lie, by the views that it was taken by.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "diptych/trace/primal_table.h"

namespace diptych::detail {

struct StoragePlace {
  at::Tensor meta;                                              ///< lies in its storage as the stand-in does
  bool is_conjugate = false;                                    ///< elements are conjugated when they are read
  bool is_negative = false;                                     ///< they are negated
  bool is_lazy() const { return is_conjugate || is_negative; }  ///< eager reads a copy instead
};

/// Returns where a stand-in lies in the storage that it shares with the tensor it was taken from; a tensor that an
/// operator wrote lies by itself until it is read. Requires: called in the trace.
StoragePlace place_in_storage(const at::Tensor& stand_in);

/// Checks the arguments of an as_strided call on a stand-in of `primal`, or on a view of it.
/// Errors: UserError if the result has elements that are not the primal's own.
void check_strided(const Primal& primal, c10::ArrayRef<c10::IValue> arguments);

}  // namespace diptych::detail
