// Dims of a kernel that always run together become one.
#pragma once
#include "diptych/native/kernel/kernel.h"
#include "diptych/native/lower/size_table.h"

namespace diptych::detail {

/// Merges each dim with the next inner one where all maps step through the two as through one, and each reduction ends
/// both or neither; leaves out dims that nothing runs along, and those of one position. Results are the same, also the
/// positions that argmin and argmax find.
///
///   kernel f(d0=4, d1=8) { ... load x0[8*d0 + d1] ... store y0[8*d0 + d1] }
/// ==>
///   kernel f(d0=32) { ... load x0[d0] ... store y0[d0] }
///
/// `sizes`: what the kernel's symbols stand for; the extents of merged dims may become new ones.
/// Requires: a kernel that verifies.
void merge_dims(Kernel& kernel, SizeTable& sizes);

/// Calls `visit` with each map of a kernel, which it may change.
template <class Visit>
void for_each_map(Kernel& kernel, const Visit& visit) {
  for (KernelValue& value : kernel.values) {
    if (auto* index = std::get_if<KernelIndex>(&value.made_by)) visit(index->map);
    if (auto* load = std::get_if<KernelLoad>(&value.made_by)) visit(load->map);
  }
  for (KernelStore& store : kernel.stores) visit(store.map);
}

}  // namespace diptych::detail
