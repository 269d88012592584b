// Keeps torch.compile out of traces: a trace runs a function as it was written, whoever compiled it.
#pragma once
#include <pybind11/pybind11.h>

namespace diptych::python {

/// While an instance is alive in a trace, functions and modules of torch.compile run as the originals that they were
/// made from, and Dynamo looks at no frame; otherwise it would compile the traced function for stand-ins. Outside a
/// trace, or if nobody has imported Dynamo, it does nothing. Requires: the GIL.
class DynamoPause {
 public:
  DynamoPause();
  ~DynamoPause();
  DynamoPause(const DynamoPause&) = delete;
  DynamoPause& operator=(const DynamoPause&) = delete;

 private:
  pybind11::object frames_, callback_, stance_;  ///< torch._dynamo.eval_frame and its former state while it is paused
};

}  // namespace diptych::python
