// The comparison of calls with their graphs, which builds for debugging have on.
#pragma once
#include "diptych/base/switches.h"

namespace diptych::testing {

/// Turns the comparison of every call with its graph on or off, while it lives.
class CallChecks {
 public:
  explicit CallChecks(bool are_on) { set_checks_calls(are_on); }
  ~CallChecks() { set_checks_calls(were_on_); }
  CallChecks(const CallChecks&) = delete;
  CallChecks& operator=(const CallChecks&) = delete;

 private:
  const bool were_on_ = checks_calls();
};

}  // namespace diptych::testing
