// Where the elements of a stand-in lie, by the views that it was taken by.
#pragma once
#include <ATen/core/Tensor.h>

namespace diptych::detail {

struct Place {
  at::Tensor meta;       ///< lies in its storage as the stand-in does
  bool is_lazy = false;  ///< elements are read as their conjugates, or negated: eager makes a copy that is read instead
};

/// Where a stand-in lies in the storage that it shares with what it was taken from: what an operator wrote lies by
/// itself until it is read. Requires: called in the trace.
Place place_in_storage(const at::Tensor& stand_in);

}  // namespace diptych::detail
