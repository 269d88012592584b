// Whether a traced function has written to tensors, for who has to do something about it when the trace fails.
#pragma once
#include <cstdint>

namespace diptych::detail {

/// How many operators that write to a tensor traces on this thread have met.
inline thread_local uint64_t traced_writes = 0;

}  // namespace diptych::detail
