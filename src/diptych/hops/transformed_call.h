// The door of compiled functions and higher-order operators: see Note [Transformed calls] in trace/transforms.h.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>

#include "diptych/trace/recorder.h"
#include "diptych/trace/transforms.h"
#include "diptych/tree/flatten.h"

namespace diptych::detail {

/// Why a call on these arguments is for the function itself: "'x' has a forward-mode tangent"; nothing for plain ones.
/// The state of the thread is not looked at.
std::optional<std::string> transform_of(const Flattened& arguments);

/// Errors: UserError, naming `who` and the argument, for one that no graph stands for, and for a mode that is active.
void check_plain(std::string_view who, const Flattened& arguments);

/// Inside a trace, says that it has met a tensor of a class that redefines operators among what a function returned.
void note_subclass(const TreeSpec& result);

/// Why a call on these arguments, on this thread, is for the function itself; nothing in the ordinary state.
std::optional<std::string> why_eager(std::initializer_list<const Flattened*> arguments);

/// Runs `captured`, which may capture and call the graph; or `eager`, which runs the user's function, if there is a
/// reason, or the capture meets one. Inside another capture that one is given up as well, and its caller runs its
/// function.
template <class Captured, class Eager>
auto captured_or_eager(const char* who, std::optional<std::string> why, const Captured& captured, const Eager& eager) {
  if (!why) {
    try {
      return captured();
    } catch (const TransformMet& met) {
      why = met.why();
    }
  }
  if (Recorder::current() != nullptr) {
    Recorder::current()->note_transform(*why);
  } else {
    note_eager_call(who, *why);
  }
  return eager();
}

/// How a loop in eager takes slices and stacks: by ATen, or by what the host language calls them, where tensors may be
/// of classes that ATen does not know.
struct EagerOperators {
  at::Tensor (*select)(const at::Tensor& tensor, int64_t index);
  at::Tensor (*stack)(const std::vector<at::Tensor>& tensors);
  at::Tensor (*clone)(const at::Tensor& tensor);
};
const EagerOperators& eager_operators();
/// Null for ATen's. Requires: lives for ever.
void set_eager_operators(const EagerOperators* operators);

}  // namespace diptych::detail
