// Expecting an error by its text. Tests that also want the thread as it was include refusal.h.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diptych/base/error.h"

namespace diptych::testing {

/// The message of the error of this kind that `action` throws; other errors pass.
template <class Kind = UserError, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Kind& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// What a text has to hold: one part, or several.
struct Parts {
  Parts(const char* part) : all{part} {}
  Parts(std::string part) : all{std::move(part)} {}
  Parts(std::initializer_list<std::string> parts) : all(parts) {}
  Parts(std::vector<std::string> parts) : all(std::move(parts)) {}

  std::vector<std::string> all;
};

/// Expects each of `parts` in `text`.
inline void expect_contains(const std::string& text, const Parts& parts) {
  for (const std::string& part : parts.all) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

/// Expects that `action` throws an error of this kind whose message holds each of `parts`.
template <class Kind = UserError, class Action>
void expect_error(const Action& action, const Parts& parts) {
  try {
    action();
  } catch (const std::exception& error) {
    EXPECT_NE(dynamic_cast<const Kind*>(&error), nullptr) << "another kind of error: " << error.what();
    return expect_contains(error.what(), parts);
  }
  ADD_FAILURE() << "nothing was thrown, expected an error with '" << parts.all.at(0) << "'";
}

}  // namespace diptych::testing
