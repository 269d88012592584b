// A scheduled kernel as a module of LLVM IR.
#pragma once
#include <string>
#include <vector>

#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

/// What the module's functions are called and need. Where the schedule has final reductions, the rows of one chunk are
/// one call of the first, which first sets the chunk's partial results, and `finish` follows all of them:
///   void <kernel>(ptr inputs, ptr outputs, i64 begin, i64 end, ptr partial, ptr memory, i64 zero, i64 nontemporal)
///   void <kernel>_finish_<i>(ptr inputs, ptr outputs, i64 begin, i64 end, ptr partial, i64 zero)
/// zero is 0, which LLVM must not know: see write_vector_loop(). nontemporal is not 0 where stores that may be
/// non-temporal are. Where the schedule has parameters, both take them as
/// one argument more, ptr symbols.
struct KernelText {
  std::string text;
  int64_t memory_bytes = 0;                    ///< of the thread
  bool is_per_point = false;                   ///< memory_bytes is that for one point of a row
  bool has_nontemporal_stores = false;         ///< where a call wants them
  std::vector<std::vector<int32_t>> finishes;  ///< by finish function: the dims along which its results run
};

/// How many points the range of a finish function has.
int64_t count_finish_steps(const Schedule& schedule, const std::vector<int32_t>& dims,
                           const std::vector<int64_t>& symbols);

KernelText write_kernel(const Schedule& schedule);

}  // namespace diptych::detail
