// Operators of libraries that write to their arguments, as operators that return what they have written: see
// Note [Forms of library operators].
#pragma once
#include <optional>

#include "diptych/graph/library_forms.h"

namespace diptych::detail {

/// The forms that call the library's operator on copies of the arguments that it writes to, and return the copies
/// behind the results.
const LibraryForm& on_copies_form();

/// Returns the form of `op` that works on copies, made when it is first asked for; nullopt if `op` writes to no
/// argument, or its schema says more than that it writes elements of tensors: it returns views, writes to other types,
/// or takes or returns objects. Its results are those of `op` that are no arguments, then one for each argument that
/// `op` writes to, in order: a tensor (undefined for an absent one), or a list. Threads: any.
std::optional<c10::OperatorHandle> on_copies(const c10::OperatorHandle& op);

/// Whether a result of an operator is an argument that it has written to.
inline bool is_written_argument(const c10::Argument& result) {
  return result.alias_info() != nullptr && result.alias_info()->isWrite();
}

}  // namespace diptych::detail
