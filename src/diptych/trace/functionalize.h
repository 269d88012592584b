// Functionalization of operators of libraries that write to their arguments.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace diptych::detail {

/// Gives `op` a kernel of functionalization, which calls its form on copies and lets the tensors that `op` writes to,
/// with their views, see what is in the copies: see Note [On copies]. Returns false where there is no such form. The
/// kernel stays for as long as the process lives, and serves functionalization outside of traces, too.
/// Requires: `op` has no kernel of functionalization, and is asked for once.
bool functionalize_on_copies(const c10::OperatorHandle& op);

}  // namespace diptych::detail
