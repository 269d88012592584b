// Where the caller's code stands, as a binding of another language tells it.
#pragma once
#include "diptych/base/interned_string.h"

namespace diptych {

/// Tells where the code stands that calls an operator, "model.py:12 forward"; empty if it does not know. Asked for each
/// node of a forward that is traced; nodes carry it behind their scopes.
using LocationSource = InternedString (*)();

/// Sets it for the process; null for none. Threads: call it before anything is traced.
void set_location_source(LocationSource source);

namespace detail {
/// The scopes of this thread with the location behind them.
InternedString current_place();
}  // namespace detail

}  // namespace diptych
