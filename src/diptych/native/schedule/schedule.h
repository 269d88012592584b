// In what order a kernel's points are visited.
//
// Note [Rows]
// The dims of a kernel are split in two. Those of a *row* are the ones that reductions end whose results are used again
// along them (the largest element of softmax), and a row's points are visited by one thread, pass by pass: a pass ends
// with the results of reductions, which the next one uses. All other dims are *outer*: their points, the rows, are
// independent, and are shared out to threads. One dim of either kind is the vector dim, along which code takes several
// points at once: with it in the row, a row's elements side by side; else several rows side by side.
// Reductions over outer dims (the gradient of a bias, the loss of a batch) cannot end within a row. They are *final*:
// rows are dealt out to a fixed number of chunks, whatever the number of threads, each chunk adds up its own partial
// result, and once all are done a last step adds those and computes what depends on them.
//
// Stores that add make up a kernel of their own (Note [Scattered sums] in scattered_sums.h). Its outer dims are those
// along which no two points add to the same element; a row is all else, which one thread goes through in order.
//
// Note [Schedules for all sizes]
// What a row is, which dim is the vector dim, and how many points a block has, follow from the kernel's structure and
// from the hints of its symbols, and hold for any sizes: loops end where the call's sizes say, and ends of vectors are
// masked. What else depends on sizes (chunks, and where partial results are) is computed for each call, see
// call_sizes.h, and handed to the code as parameters behind the kernel's symbols.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/scalar/code_target.h"
#include "diptych/native/schedule/size_product.h"

namespace diptych::detail {

/// A reduction over outer dims.
struct FinalReduction {
  int32_t value = 0;
  std::vector<int32_t> kept;  ///< its dims, outer to inner; the vector dim is the last if it is one
  SizeProduct count;          ///< points of `kept`
  SizeTerm offset;            ///< bytes from the beginning of a chunk's partial results
};

struct Schedule {
  CodeTarget target;
  Kernel kernel;  ///< with plain and split reductions
  std::vector<DimSet> domains;
  DimSet row;
  std::vector<int32_t> outer;  ///< dims, outermost first, without the vector dim
  std::vector<int32_t> inner;  ///< dims of the row, outermost first; the vector dim is the last if it is one
  int32_t vector_dim = -1;     ///< -1: there are no dims
  bool is_vector_in_row = false;
  int lanes = 1;
  int64_t block = 1;  ///< points of an outer vector dim that one row has

  std::vector<int> pass;       ///< by value: of the row's passes, the first that can use it
  int passes = 0;              ///< that have something to do
  std::vector<bool> is_final;  ///< by value: made once all chunks are done
  std::vector<FinalReduction> final_reductions;
  SizeTerm partial_bytes;  ///< of one chunk
  SizeTerm chunks;         ///< 0 without final reductions
  int32_t parameters = 0;  ///< of the code: the kernel's symbols, and what is computed from them

  const SizeTerm& extent(int32_t dim) const { return kernel.extents[dim]; }
  SizeProduct count(DimSet dims) const;
  /// The same by the hints.
  int64_t likely_extent(int32_t dim) const { return hint_of(kernel, kernel.extents[dim]); }
  int64_t likely_count(DimSet dims) const;
  bool varies_along(int32_t value, int32_t dim) const { return dim >= 0 && domains[value].contains(dim); }
};

/// Returns the schedule, or nullopt and why there is none. Requires: a kernel that verifies.
std::optional<Schedule> make_schedule(const Kernel& kernel, std::string& why,
                                      const CodeTarget& target = host_code_target());

}  // namespace diptych::detail
