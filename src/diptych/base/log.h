// Writing log lines; which of them are wanted is in switches.h.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

#include "diptych/base/switches.h"

namespace diptych {

namespace detail {
void write_log(Log kind, std::string_view text);
}

/// Writes the text that `make` returns if the switch of its kind is on; otherwise `make` is not called.
template <class Make>
requires std::is_invocable_r_v<std::string, Make>
void log(Log kind, Make&& make) {
  if (log_enabled(kind)) detail::write_log(kind, make());
}

/// Formats and writes one log entry if its switch is on. Arguments are evaluated whether it is on or not; use the other
/// form for text that takes time to make.
template <class... Args>
void log(Log kind, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(kind)) detail::write_log(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace diptych
