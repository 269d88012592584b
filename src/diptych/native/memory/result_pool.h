// Memory for the results of kernels and products: blocks that are freed are kept and handed out again, so that a step
// which repeats touches no fresh page.
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

/// The allocator of results: 64-byte aligned blocks, those of 64 KiB and more from one arena that all sizes share.
/// Live and kept memory together take at most a quarter, and two pages of 2 MiB, more than was live at once at most,
/// but where live blocks lie so far apart that no whole page between them is free. It lasts as long as the process, so
/// that results may. Threads: any.
c10::Allocator* result_pool();

/// The size of the pool's block for a result of so many bytes.
int64_t result_block_size(int64_t bytes);

ResultPoolUse result_pool_use();

/// Gives what is kept back to the system, but for pages that live blocks lie in, and lets the high-water mark start
/// from what is live.
void release_result_pool();

/// Makes a CPU tensor whose elements are not set, in memory of the pool.
at::Tensor new_result(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype);

}  // namespace diptych::detail
