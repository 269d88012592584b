// Reading back what print(kernel) writes.
#pragma once
#include <string_view>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// Parses one kernel, which verifies. Values may skip numbers as long as they rise; they are renumbered from 0. The
/// terms of a map may come in any order. `// remarks` end with their line.
/// Errors: UserError with line and column, what the text has there and what was expected.
Kernel parse_kernel(std::string_view text);

}  // namespace diptych::detail
