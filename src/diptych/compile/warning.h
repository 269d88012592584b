// Warnings to the user of a compiled function.
#pragma once
#include <functional>
#include <string>

namespace diptych::detail {

/// Warns the user, by LibTorch's warnings or as set_warning_sink() says. Errors: whatever the sink throws, as Python
/// does where warnings are errors.
void warn(const std::string& text);

/// Sets, for the process, where warnings go; an empty function for LibTorch's. Threads: call it before anything warns.
void set_warning_sink(std::function<void(const std::string& text)> sink);

}  // namespace diptych::detail
