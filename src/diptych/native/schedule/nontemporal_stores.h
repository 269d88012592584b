// Which results are written past the caches.
//
// Note [Non-temporal stores]
// An ordinary store has its line read from memory first and written back later: a third of what a copy moves is for
// nothing. A non-temporal store of whole lines moves each line once, but leaves it in no cache, so that the next kernel
// or product has to wait for it. It pays where a call reads and writes more than the last cache holds: then the lines
// would be gone before they are read. Sizes decide, at each call where they are dynamic. Results that overwrite an
// input are written ordinarily, since their lines have been read anyway.
// Such a store has to be aligned to its vector, or LLVM makes an ordinary one. A loop begins with a masked vector that
// ends where a line of all its results begins; where there is no such place, the loop has ordinary stores. Results are
// the same bits: what has sums along the loop keeps its vectors, and has non-temporal stores only where lines begin
// with them. Vectors of 64 bytes and more begin with a line, so that no line is written in both ways, though rows of
// odd lengths share lines.
#pragma once
#include <cstdint>
#include <vector>

#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

/// The bytes that a call has to read and write for its stores to be non-temporal: what the last cache holds. Threads:
/// any.
int64_t least_nontemporal_bytes();
/// Makes it another number for the process, so that tests can have such stores at all sizes. Kernels made before keep
/// their code, and go by the number from their next call on.
void set_least_nontemporal_bytes(int64_t bytes);

/// The bytes that calls read and write, each element once.
class MovedBytes {
 public:
  explicit MovedBytes(const Schedule& schedule);
  /// For these values of the kernel's symbols.
  int64_t at(const std::vector<int64_t>& symbols) const;
  /// By the hints.
  int64_t likely() const { return at(hints_); }

 private:
  std::vector<std::vector<SizeProduct>> buffers_;  // of each, the greatest is read or written
  std::vector<int64_t> hints_;
};

/// By store of the kernel: whether there is code in which it is non-temporal. Such stores are the innermost loop's,
/// side by side, on x86-64, of kernels that move enough bytes or, where a size is dynamic, may do so at other sizes.
std::vector<bool> nontemporal_stores(const Schedule& schedule);

/// How a non-temporal store of so many elements has to be aligned: to a line, or to itself if it is shorter.
int64_t nontemporal_alignment(at::ScalarType dtype, int lanes);

}  // namespace diptych::detail
