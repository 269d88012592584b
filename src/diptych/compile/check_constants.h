// Whether what a function of C++ reads besides its arguments is still what it was when the function was captured.
//
// Note [Constants of C++]: nobody tells what a lambda reads through a reference, a global or a member. A graph has it
// as a constant, and a captured tensor as a free variable. So a function is traced again from time to time, at the
// second call that a capture serves and at every n-th, and the graphs as they were traced are compared. Between two
// such calls a change goes unseen, and so does any where the function asks for values, which a trace would compute
// again. A trace costs what a first call costs without compiling.
#pragma once
#include <string>

#include "diptych/compile/captured_function.h"

namespace diptych::detail {

/// Compares a capture with a trace of the same function for the same kind of arguments, `now`. Errors: UserError names
/// the node that moved, its scope, and what to do.
void check_constants(const CapturedFunction& captured, const CapturedFunction& now);
/// The same where all that is known is that something moved, as `what`.
[[noreturn]] void report_moved(const std::string& function, const std::string& what);

}  // namespace diptych::detail
