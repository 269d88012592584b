// What values of a kernel are made of, as passes over kernels look for it.
#pragma once
#include <optional>
#include <string_view>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// The operation that makes a value, if it is `op`; else null.
const KernelScalar* scalar_of(const Kernel& kernel, int32_t value, std::string_view op);
bool is_zero(const Kernel& kernel, int32_t value);
/// Of a dtype that is no complex one.
KernelNumber zero_of(at::ScalarType dtype);
/// The dim of which a value is the position itself.
std::optional<int32_t> dim_of(const Kernel& kernel, int32_t value);

/// The sum over some dims of `select(eq(position, chosen), added, 0)`, where `position` is that along `dim`.
struct SumOfChosen {
  int32_t dim, chosen, added;
};
/// `side`: which operand of the comparison the position is.
std::optional<SumOfChosen> sum_of_chosen(const Kernel& kernel, int32_t value, int side);

}  // namespace diptych::detail
