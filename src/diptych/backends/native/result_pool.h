// Memory for the results of kernels: blocks that are freed are kept and handed out again, so that a step which repeats
// touches no fresh page.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace diptych::detail {

/// What the pool holds, in bytes.
struct ResultPoolUse {
  int64_t live = 0;        ///< in tensors
  int64_t kept = 0;        ///< free, to be handed out again
  int64_t high_water = 0;  ///< the most that was ever live
};

/// The allocator of results: 64-byte aligned blocks of some sizes, at most an eighth larger than asked for. Live and
/// kept blocks together never take more than one and a half times what was live at once at most: sizes reach their most
/// at different times. It lasts as long as the process, so that
/// results may. Threads: any.
c10::Allocator* result_pool();

ResultPoolUse result_pool_use();

/// Gives the kept blocks back to the system, and lets the high-water mark start from what is live.
void release_result_pool();

/// Makes a CPU tensor whose elements are not set, in memory of the pool.
at::Tensor new_result(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

}  // namespace diptych::detail
