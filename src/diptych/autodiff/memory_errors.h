// What LibTorch says where a function reaches for the memory of a stand-in, which has none.
#pragma once
#include <c10/util/Exception.h>

namespace diptych::detail {

/// Errors: UserError, with what to do instead, if `error` is one of these.
void refuse_memory(const c10::Error& error);

}  // namespace diptych::detail
