// Exceptions of the host language that are caught here.
#pragma once

namespace diptych::detail {

/// Forgets an exception that the host language still takes for raised: torch's engine raises it before it throws. Set
/// by a binding; null where there is none.
inline void (*forget_host_error)() = nullptr;

}  // namespace diptych::detail
