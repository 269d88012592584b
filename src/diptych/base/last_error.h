// Errors on their way through other libraries, for bindings.
#pragma once
#include <string>

#include "diptych/base/error.h"

namespace diptych::detail {

/// The text of the last UserError that DIPTYCH_CHECK threw on this thread. A binding recognizes that error by its text
/// after another library has turned it into an error of its own.
const std::string& last_user_error();

/// Throws the host's form of an error, or returns if Diptych's own code will catch it. Null, the default, means that
/// there is no host.
using HostThrow = void (*)(const UserError&);
void set_host_throw(HostThrow host_throw);
HostThrow host_throw();

/// Returns call(), and throws a UserError in the host's form. It is for functions that LibTorch's engine calls: the
/// engine passes Python exceptions through and turns all others into RuntimeErrors.
template <class Function>
auto called_by_engine(const Function& call) {
  try {
    return call();
  } catch (const UserError& error) {
    if (const HostThrow host = host_throw()) host(error);
    throw;
  }
}

}  // namespace diptych::detail
