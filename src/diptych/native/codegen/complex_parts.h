// Complex numbers as pairs of real ones.
//
// Note [Complex numbers are pairs of maps]
// A complex buffer is one of twice as many real numbers, the real part of each element before its imaginary one. So a
// load becomes two, with maps of twice the steps, of which the second has an offset of 1; a store becomes two likewise,
// and each value of a body two or, by the formulas of complex_formulas.h, as many as it takes. What makes code then
// never meets a complex number, and schedules, passes and sums are those of real kernels. It is told of pairs by the
// dtypes of buffers, which stay complex, so that it can read and write both parts of neighbours at once.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "diptych/native/kernel/kernel.h"
#include "diptych/native/schedule/schedule.h"

namespace diptych::detail {

/// The kernel on parts: values are real, and maps of complex buffers count parts. Such a kernel does not verify where
/// it has complex buffers, since loads and stores of them have the parts' dtype. Kernels without complex numbers are
/// returned as they are. Returns nullopt, and why, if an operation has no formula. Requires: a kernel that verifies.
std::optional<Kernel> with_complex_parts(const Kernel& kernel, std::string& why);

/// How the stores of such a kernel are written: by store, the number of the one with the imaginary parts that is
/// written together with it, its own where it is written with another one, and kAlone where neither holds.
inline constexpr int32_t kAlone = -1;
std::vector<int32_t> stored_pairs(const Schedule& schedule);

/// Of a map of a complex buffer in such a kernel: 0 if it leads to real parts, 1 if to imaginary ones.
int64_t part_of(const IndexMap& map);

}  // namespace diptych::detail
