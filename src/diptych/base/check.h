// The macros that throw the two kinds of error. Apart from error.h, so that headers of the public interface, which
// throw none themselves, do without fmt.
#pragma once
#include <fmt/format.h>

#include "diptych/base/error.h"

/// DIPTYCH_CHECK(condition, "[scan] carry {} came in as {}; ...", args...) throws UserError when the condition is
/// false.
#define DIPTYCH_CHECK(condition, ...)                                  \
  do {                                                                 \
    if (!(condition)) [[unlikely]]                                     \
      ::diptych::detail::throw_user_error(::fmt::format(__VA_ARGS__)); \
  } while (false)

/// DIPTYCH_ASSERT(condition, "format", args...) throws InternalError when the condition is false; never for user input.
#define DIPTYCH_ASSERT(condition, ...)                                                                     \
  do {                                                                                                     \
    if (!(condition)) [[unlikely]]                                                                         \
      ::diptych::detail::throw_internal_error(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
