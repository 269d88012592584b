// Debug switches, read once from the environment variable DIPTYCH_LOG, and the one sink that log lines go to.
#pragma once
#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace diptych {

/// What can be logged; a name in DIPTYCH_LOG (comma separated, or "all") turns its lines on.
enum class Log { kGraphs, kCache, kPartition, kBackward, kBackwardVerbose, kPasses };

/// Returns whether lines of this kind are wanted. Threads: any.
bool log_enabled(Log kind);

/// Turns logging on or off for the process, as DIPTYCH_LOG=`names` would. Errors: UserError names an unknown switch.
void set_log(std::string_view names);

/// Sends every log line to `sink` instead of standard error; an empty function restores standard error.
void set_log_sink(std::function<void(std::string_view line)> sink);

namespace detail {
void write_log(Log kind, std::string_view text);
}

/// Formats and writes one log entry if its switch is on.
template <class... Args>
void log(Log kind, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(kind)) detail::write_log(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace diptych
