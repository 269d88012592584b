// What lets perf and gdb name kernels.
#pragma once
#include <map>
#include <string>

#include "diptych/native/jit/llvm_library.h"

namespace diptych::detail {

/// Whether kernels are named for perf and gdb: DIPTYCH_PERF=1 says so. The variable is read once. Errors: UserError if
/// it is neither 0 nor 1.
bool names_kernels();

/// Adds functions to /tmp/perf-<process>.map, where perf looks for names of code that a process makes. A file that
/// cannot be written is reported once (DIPTYCH_LOG=cache). Threads: any.
void write_perf_names(const std::map<std::string, LoadedFunction>& functions);

}  // namespace diptych::detail
