// The last error of a thread, for bindings.
#pragma once
#include <string>

namespace diptych::detail {

/// The text of the UserError that DIPTYCH_CHECK threw last on this thread. A binding knows it again by this when
/// another library has made an error of its own of it on the way.
const std::string& last_user_error();

}  // namespace diptych::detail
