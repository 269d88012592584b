// What each pass over a row computes, and what it keeps for later ones.
#pragma once
#include <optional>
#include <vector>

#include "diptych/native/schedule/row_streams.h"
#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

/// Something that a pass ends in, at a point of the row.
struct PassResults {
  int lanes = 0;                    ///< of the innermost loop, where that is along the vector dim
  std::vector<int32_t> reductions;  ///< values
  std::vector<size_t> finals;       ///< of Schedule::final_reductions, that keep the dims of the row
  std::vector<size_t> stores;       ///< of Kernel::stores, that vary along the row
  std::vector<int32_t> needed;      ///< values that vary along the row and are computed, in order
  std::vector<int32_t> kept;        ///< of these, those that are written to the row's memory
  std::vector<int32_t> reused;      ///< values that an earlier pass has kept there
};

/// Values that a later pass needs again are computed again from the row's elements, which are in the cache by then,
/// unless that takes expensive operations: then they are kept, in memory of the thread, if the row is not too long.
struct RowPlan {
  std::vector<PassResults> passes;
  std::vector<size_t> stores;         ///< of Kernel::stores, once per row
  std::vector<size_t> finals;         ///< of Schedule::final_reductions, added to once per row
  std::vector<int32_t> needed;        ///< values once per row, in order
  std::vector<int64_t> kept_offsets;  ///< by value: bytes from the beginning of the thread's memory; -1 if not kept
  int64_t bytes = 0;                  ///< of the thread's memory
  std::vector<RowStream> ahead;       ///< what `busiest` fetches of the next row
  std::vector<bool> nontemporal;      ///< by store of the kernel: whether it may be
  int busiest = 0;                    ///< the pass that computes most
  bool is_per_point = false;          ///< offsets and bytes are by point of a row whose length is dynamic
};

RowPlan plan_row(const Schedule& schedule);

}  // namespace diptych::detail
