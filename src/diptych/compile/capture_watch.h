// A watch on what a function does besides calling operators, kept by a binding of another language during a capture.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/base/error.h"

namespace diptych::detail {

/// Why no graph can be made of a function: what a UserError says that tracing it threw.
class CaptureRefused final : public UserError {
 public:
  using UserError::UserError;
};

/// Watches one capture, from the construction of the watch to finish() on the same thread. A function that needs one
/// has a member `std::unique_ptr<CaptureWatch> watch_capture()`, which may return null.
class CaptureWatch {
 public:
  struct Found {
    std::string what;       ///< what a graph would not repeat, such as "draws random numbers ..."; empty if nothing
    bool is_undone = true;  ///< whether everything is as it was before, so that the function may run again
    /// What the function read of the host that guards compare, such as "reads the environment ..."; empty if nothing.
    std::string reads{};
    /// Whether guards compare more from now on, of what was read.
    bool guards_more = false;
  };

  virtual ~CaptureWatch() = default;
  /// Ends the watch and undoes what was done, where that is possible. `written`: tensors of the call that the graphs
  /// write to; no graph repeats what else the function reads in their memory. Errors: UserError if it can't be undone
  /// and the capture is useless, too.
  virtual Found finish(const std::vector<at::Tensor>& written) = 0;
  /// Ends the watch of a capture that failed with the exception that is being handled, and undoes what the capture left
  /// behind. Returns whether the function may run in its place: whether the exception is the function's own, which it
  /// will raise again after doing what it does before, and everything is as it was.
  virtual bool forget() = 0;
  /// Returns why no graph can be made of the function, if the exception that is being handled says so; else "". It may
  /// be an exception of the binding's language.
  virtual std::string refusal() const;
};

template <class F>
std::unique_ptr<CaptureWatch> watch_capture(F& function) {
  if constexpr (requires { function.watch_capture(); }) {
    return function.watch_capture();
  } else {
    return nullptr;
  }
}

/// Ends the watch of a capture that gives way to a run of the function itself.
/// Errors: UserError if that run would repeat what can't be undone.
void take_back(CaptureWatch& watch);

}  // namespace diptych::detail
