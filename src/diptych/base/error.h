// The two kinds of error that Diptych throws, and the macros that throw them.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace diptych {

/// A mistake that the caller can correct. The text says who refused, what it got, what it expected and what to change.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& text) : std::runtime_error(text) {}
};

/// A fault of Diptych itself. The text says where, and holds the part of the graph that shows it.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& text) : std::logic_error(text) {}
};

namespace detail {
[[noreturn]] void throw_user_error(std::string text);
[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition, const std::string& text);
}  // namespace detail
}  // namespace diptych

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
