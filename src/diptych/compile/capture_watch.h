// What a function does besides its operators, as a binding of another language sees it while the function is captured.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "diptych/base/error.h"

namespace diptych {

/// Watches one capture, from its making to finish() on the same thread. A function that needs one has a member
/// `std::unique_ptr<CaptureWatch> watch_capture()`, which may give null.
class CaptureWatch {
 public:
  struct Found {
    std::string what;       ///< what a graph would not do again, "draws random numbers ..."; empty if there is nothing
    bool is_undone = true;  ///< whether all is as it was before, so that the function may run again
  };

  virtual ~CaptureWatch() = default;
  /// Ends the watch and takes back what was done, if it can be. `written`: tensors of the call that the graphs write
  /// to; what else the function reads in their memory, no graph does. Errors: UserError where it can't be, and the
  /// capture is no use either.
  virtual Found finish(const std::vector<at::Tensor>& written) = 0;
  /// Ends the watch of a capture that failed by the exception that is being handled: what it left of the trace is taken
  /// back. Returns whether the function may run in its place: the exception is the function's own, which it raises
  /// again when it has done what it does before, and all is as it was.
  virtual bool forget() = 0;
};

namespace detail {
template <class F>
std::unique_ptr<CaptureWatch> watch_capture(F& function) {
  if constexpr (requires { function.watch_capture(); }) {
    return function.watch_capture();
  } else {
    return nullptr;
  }
}

/// Ends the watch of a capture in whose place the function itself runs next.
/// Errors: UserError where that would do again what can't be taken back.
inline void take_back(CaptureWatch& watch) {
  const CaptureWatch::Found found = watch.finish({});
  DIPTYCH_CHECK(found.is_undone,
                "[capture] the function {}, which can't be taken back so that the function itself might run, as a call "
                "inside a transform or on its tensors does; pass what it takes as an argument",
                found.what);
}
}  // namespace detail

}  // namespace diptych
