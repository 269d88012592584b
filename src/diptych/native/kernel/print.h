// Kernels as text; parse.h reads it back. kernel.h shows an example.
#pragma once
#include <string>

#include "diptych/native/kernel/kernel.h"

namespace diptych::detail {

/// The whole kernel. Numbers are exact: parse_kernel(print(kernel)) == kernel for every kernel that verifies.
/// A kernel that does not verify prints too.
std::string print(const Kernel& kernel);

/// One line of the body, where lines count the values and then the stores.
std::string line_text(const Kernel& kernel, size_t line);

std::string size_text(const SizeTerm& size);
std::string map_text(const IndexMap& map);

}  // namespace diptych::detail
