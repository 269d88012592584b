// The captures of a compiled function in words.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/compile/cache.h"

namespace diptych::detail {

/// Returns one line per capture, oldest first: the types of its arguments, and the sizes of its graphs. Captures that
/// differ in values that the function asks for stand below these questions as the leaves of a tree. Entries that run
/// the function itself say why.
std::string explain_captures(const std::vector<std::shared_ptr<const Cache::Entry>>& entries);

}  // namespace diptych::detail
