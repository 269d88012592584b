// Variables of the environment that turn something on or off.
#pragma once

namespace diptych::detail {

/// Whether the environment variable is 1; `otherwise` where it is not set. Errors: UserError if it is neither 0 nor 1.
/// Threads: any, as long as none changes the environment.
bool is_on(const char* variable, bool otherwise);

}  // namespace diptych::detail
