// Which buffers a kernel goes through row by row.
//
// Note [Rows ahead]
// The passes over a row ask for memory in turns: the first one waits for elements that come from afar, the one with the
// functions computes on what the cache has, the last one waits for the lines that it writes. So the pass that computes
// most fetches the next row's elements, and the lines of its results, beside its work: a softmax with a layer norm over
// [4096, 1024] takes half the time on one thread. It is a hint; a wrong address, as behind the last row, harms nothing.
#pragma once
#include <optional>
#include <vector>

#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

/// A buffer of which each row reads or writes elements of its own, which lie side by side.
struct RowStream {
  bool is_output = false;
  int32_t buffer = 0;
  at::ScalarType dtype = at::kFloat;
  IndexMap map;
};

/// The streams of rows that are worth being fetched ahead: of kernels with several passes, whose buffers are larger
/// than a core's caches, and whose rows are not. `nontemporal`: by store, whether it may be; such are no streams where
/// the kernel is likely to move enough bytes for them to be.
std::vector<RowStream> streams_ahead(const Schedule& schedule, const std::vector<bool>& nontemporal);

}  // namespace diptych::detail
