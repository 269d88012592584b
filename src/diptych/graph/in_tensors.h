// Operators of libraries that return numbers, as operators that return tensors which hold them: see
// Note [Forms of library operators].
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "diptych/graph/library_forms.h"

namespace diptych::detail {

/// The forms that call the library's operator, and return tensors in the places of numbers.
const LibraryForm& in_tensors_form();

/// Returns the form of `op` that returns tensors alone, made when it is first asked for; nullopt if `op` returns no
/// numbers, returns what no tensor holds, writes to arguments, returns views, or takes objects. Its results lie on the
/// CPU where they hold numbers. Threads: any.
std::optional<c10::OperatorHandle> in_tensors(const c10::OperatorHandle& op);

/// Per result of a form: whether it holds a number. Empty for an operator that is no such form.
std::vector<bool> results_in_tensors(const c10::OperatorHandle& op);

/// Whether a result of this type is held by a tensor in the form: a number, a truth value, a text, a list of numbers,
/// or one of these that may be absent.
bool is_held_by_tensor(const c10::TypePtr& type);

/// Returns what a tensor of a form holds for a result of this type. Requires: is_held_by_tensor(type).
c10::IValue held_by(const at::Tensor& tensor, const c10::TypePtr& type);

}  // namespace diptych::detail
