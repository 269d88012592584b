// Operators of libraries in forms that a graph can hold.
//
// Note [Forms of library operators]: a graph computes tensors and writes to none. LibTorch's own operators have
// functional forms for this; an operator of a library that declares Tensor(a!), or returns a number, has none, so one
// is made: an operator of a namespace of its own that takes the same arguments and calls the library's operator. In a
// graph it is an operator like any other: "on_copies.lib__scale_" is printed, stored and found again by that name, and
// may be merged or dropped as other operators of libraries may. It is made of operators that autograd and transforms
// know, so they see what they would see in eager. A form may have a form in turn.
#pragma once
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string_view>
#include <vector>

namespace diptych::detail {

/// One kind of forms.
struct LibraryForm {
  std::string_view name_space;
  bool (*exists)(const c10::OperatorHandle& op);
  /// The results of the form of an operator with this schema.
  std::vector<c10::Argument> (*returns)(const c10::FunctionSchema& schema);
  c10::KernelFunction kernel;     ///< of all forms; it finds its operator by original_of()
  std::vector<at::Tag> own_tags;  ///< besides those of the operator that hold for its form
};

/// Returns the form of `op`, made when it is first asked for; nullopt if there is none. Threads: any.
std::optional<c10::OperatorHandle> form_of(const LibraryForm& kind, const c10::OperatorHandle& op);

/// Returns the operator that a form calls. Errors: UserError if its library has changed or removed it. Threads: any.
c10::OperatorHandle original_of(const c10::OperatorHandle& form);

/// Returns the form that has this name; nullopt if it is no name of a form, or no operator has it. Threads: any.
std::optional<c10::OperatorHandle> find_library_form(const c10::OperatorName& name);

/// Whether an operator of this name is a form. Threads: any.
bool is_library_form(const c10::OperatorName& name);

/// Returns the name by which a user knows an operator: of a form, that of the library's operator. Threads: any.
c10::OperatorName name_for_user(const c10::OperatorName& name);

/// Whether a type is an object of TorchScript's, or holds one.
bool holds_object(const c10::TypePtr& type);

}  // namespace diptych::detail
