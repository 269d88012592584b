// The two kinds of error that Diptych throws.
#pragma once
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
