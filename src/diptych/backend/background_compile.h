// Graphs that are compiled while calls already run.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "diptych/backend/backend.h"

namespace diptych::detail {

/// Makes a compiler whose executables run by the interpreter until `compile`, on a thread of its own, is done. An
/// exception of it is logged (DIPTYCH_LOG=graphs), and the interpreter stays. `name` is the backend's, for that
/// message. Threads: an executable may be run, and dropped, by any; dropping it waits for its compiler, and so does the
/// end of the process.
Compiler in_background(Compiler compile, std::string name);

/// Whether an executable still waits for its compiler; false for any that in_background() did not make.
bool is_compiling(const Executable& executable);

/// Waits for all compilers that run.
void wait_for_background();

/// Sets what a thread calls before it waits for a compiler; the result is dropped afterwards. Bindings let go of a
/// language's lock with it, which the compiler may need.
void set_release_host(std::shared_ptr<void> (*release)());

}  // namespace diptych::detail
