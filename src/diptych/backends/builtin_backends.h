// The built-in backends by name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "diptych/backend/backend.h"

namespace diptych {

/// The names that AotOptions::backend takes in this build.
std::vector<std::string> backend_names();

/// The backend of whoever names none: the environment variable DIPTYCH_BACKEND, or "native" where it is not set. The
/// variable is read once; whether a backend has that name is backend_by_name()'s to say. Threads: any.
const std::string& default_backend();

/// Finds a built-in backend. `draws`: see AotOptions::draws. Errors: UserError lists the names.
std::shared_ptr<const Backend> backend_by_name(const std::string& name, const std::string& draws = "host");

/// Makes a compiler of a backend: nodes that it does not support are run by the interpreter, and its results are
/// checked against the graph's metadata on the first run.
Compiler compiler_of(std::shared_ptr<const Backend> backend);

/// Waits until whatever is compiled in the background is ready (AotOptions::async_compile).
void wait_for_compilers();

/// Wraps a user's compiler so that its results are checked on the first run. `role`: "forward", "backward",
/// "inference".
Compiler checked_compiler(Compiler compiler, std::string role);

namespace detail {
/// Finds the built-in backend that compares the results of its kernels with the interpreter's; null if the one of that
/// name has no kernels of its own. Errors: as backend_by_name().
std::shared_ptr<const Backend> checking_backend_by_name(const std::string& name);
/// Returns whether `draws` is "device". Errors: UserError, in the name of `who`, if it is not "host" either.
bool draws_on_device(const std::string& draws, const std::string& who);
}  // namespace detail

}  // namespace diptych
