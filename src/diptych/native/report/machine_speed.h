// What this machine can do at most, by its own account.
#pragma once

namespace diptych::detail {

/// Bytes that a large copy reads and writes in a second, on as many threads as kernels have. Measured once, when it is
/// first asked for. Threads: any.
double memory_bandwidth();

/// Operations on f32 in a second, of fused multiply-adds on vectors in registers, each of which is two; likewise.
/// 0 where no code can be made.
double peak_flops();

}  // namespace diptych::detail
