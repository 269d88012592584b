// Where the caller's code is, as a binding of another language knows it.
#pragma once
#include <ATen/core/operator_name.h>

#include <string>
#include <string_view>

#include "diptych/base/interned_string.h"

namespace diptych::detail {

/// Tells where the code is that calls an operator, "model.py:12 forward"; empty if it does not know. It is asked for
/// each node of a forward that is traced; the node carries the answer behind its scopes.
using LocationSource = InternedString (*)();

/// Sets it for the process; null for none. Threads: call it before anything is traced.
void set_location_source(LocationSource source);

/// Returns the scopes of this thread with the location behind them.
InternedString current_place();
/// Returns "what in scope 'scope'" for a message, or just "what" if the scope is empty.
std::string with_scope(std::string_view what, const InternedString& scope);
/// The same with current_place().
std::string with_place(std::string_view what);
/// The same of an operator; a form is named as the operator of a library that it calls.
std::string with_place(const c10::OperatorName& op);

}  // namespace diptych::detail
