// Whether a traced function has written to tensors: its caller needs this when a trace fails.
#pragma once
#include <cstdint>

namespace diptych::detail {

/// How many operators that write to a tensor were traced on this thread so far.
inline thread_local uint64_t traced_writes = 0;

}  // namespace diptych::detail
