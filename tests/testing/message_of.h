// What an action is refused with.
#pragma once
#include <string>

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

}  // namespace diptych::testing
