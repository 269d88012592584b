// The entry checks of compiled functions and higher-order operators: see Note [Transformed calls] in
// trace/transforms.h.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>

#include "diptych/base/error_words.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/transforms.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// Returns why a call on these arguments must run the function itself, such as "'x' has a forward-mode tangent";
/// nullopt for plain ones. The thread's state is not examined.
std::optional<std::string> transform_of(const Flattened& arguments);

/// Checks that a graph can take these arguments. Errors: UserError, naming `who` and the argument, for one that no
/// graph can represent, and for a mode that is active.
void check_plain(std::string_view who, const Flattened& arguments);

/// Inside a trace, notes that a function returned a tensor of a class that redefines operators, if one did.
void note_subclass(const TreeSpec& result);

/// Returns the metadata of an argument: that of logical_meta() if it is wrapped.
TensorMeta meta_of_argument(const at::Tensor& argument);

/// Whether a call on these arguments is inside of a transform that higher-order operators have rules for.
bool is_transformed(std::initializer_list<const Flattened*> arguments);

/// Returns why a call on these arguments, on this thread, must run the function itself; nullopt in the ordinary state.
std::optional<std::string> why_eager(std::initializer_list<const Flattened*> arguments);

/// Runs `captured`, which may capture and call the graph. If there is a reason not to, or the capture meets one, runs
/// `eager` instead, which calls the user's function. A capture around this call is then given up as well, and its
/// caller runs its function.
template <class Captured, class Eager>
auto captured_or_eager(const char* who, std::initializer_list<const Flattened*> arguments, const Captured& captured,
                       const Eager& eager, std::optional<std::string> why = {}) {
  if (!why) why = why_eager(arguments);
  if (!why) {
    try {
      return captured();
    } catch (const TransformMet& met) {
      why = met.why();
    } catch (const std::exception& error) {
      // What no rule covers inside of a transform, the user's function may do.
      if (!is_transformed(arguments)) throw;
      why = words_of(error);
    }
  }
  if (Recorder::current() != nullptr) {
    Recorder::current()->note_transform(*why);
  } else {
    note_eager_call(who, *why);
  }
  return eager();
}

/// How a loop in eager takes slices and stacks: by ATen, or by the host language's own functions, where tensors may be
/// of classes that ATen does not know.
struct EagerOperators {
  at::Tensor (*select)(const at::Tensor& tensor, int64_t index);
  at::Tensor (*stack)(const std::vector<at::Tensor>& tensors);
  at::Tensor (*clone)(const at::Tensor& tensor);
};
const EagerOperators& eager_operators();
/// Sets the operators of the host language; null means ATen's. Requires: `operators` lives for ever.
void set_eager_operators(const EagerOperators* operators);

}  // namespace diptych::detail
