// Errors on their way through other libraries, for bindings.
#pragma once
#include <string>

#include "diptych/base/error.h"

namespace diptych::detail {

/// The text of the UserError that DIPTYCH_CHECK threw last on this thread. A binding knows it again by this when
/// another library has made an error of its own of it on the way.
const std::string& last_user_error();

/// Throws the host's form of an error, or returns where Diptych's own code will catch it. Null, as at first: there is
/// no host.
using HostThrow = void (*)(const UserError&);
void set_host_throw(HostThrow host_throw);
HostThrow host_throw();

/// Returns call(). A UserError leaves it in the host's form: for what is called by LibTorch's engine, which knows
/// exceptions of Python's and makes RuntimeErrors of all others.
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
