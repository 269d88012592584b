// Whether a traced function has done what eager does at once and a trace does not: its caller needs this when a trace
// fails.
#pragma once
#include <cstdint>

namespace diptych::detail {

/// How many writes to tensors, draws, and open numbers were traced on this thread so far.
inline thread_local uint64_t traced_writes = 0;

}  // namespace diptych::detail
