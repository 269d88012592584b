// Debug switches, read once from the environment variables DIPTYCH_LOG, DIPTYCH_CHECK and DIPTYCH_CHECK_CALLS, and the
// one sink that log lines go to.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace diptych {

/// The kinds of log line; a name in DIPTYCH_LOG (comma separated, or "all") turns its lines on.
enum class Log { kGraphs, kCache, kPartition, kBackward, kBackwardVerbose, kPasses, kKernels };

/// Returns whether lines of this kind are wanted. Threads: any.
bool log_enabled(Log kind);

/// Turns logging on or off for the process, as DIPTYCH_LOG=`names` would. Errors: UserError names an unknown switch.
void set_log(std::string_view names);

/// Whether every tensor of every run is compared with what the graph says about it: DIPTYCH_CHECK_CALLS=1 or 0, or, if
/// that is not set, whether the library is a debug build (preset debug or threads). Threads: any.
bool checks_calls();
void set_checks_calls(bool checks);

/// Whether the results of every native kernel are compared with the interpreter's: "kernels" among the words of
/// DIPTYCH_CHECK. Threads: any.
bool checks_kernels();
void set_checks_kernels(bool checks);

namespace detail {
/// Returns the number among the words of the environment variable DIPTYCH_CHECK (comma separated): one in that many
/// calls of a compiled function is compared with the original function; 0 for none. The variable is read once.
/// Errors: UserError if a word is neither a whole number nor "kernels".
size_t calls_per_check();
}  // namespace detail

/// Sends every log line to `sink` instead of standard error; an empty function restores standard error.
void set_log_sink(std::function<void(std::string_view line)> sink);

}  // namespace diptych
