// Functions of the library that LibTorch's operators are in, and of what it is linked with.
#pragma once

namespace diptych::detail {

/// Returns the address of a function that libtorch_cpu, or a library that it is linked with, has; null if none does. A
/// Python extension's libraries are not among those that the process as a whole is searched for, so it is asked by its
/// own handle. Threads: any.
void* find_in_torch(const char* function);

}  // namespace diptych::detail
