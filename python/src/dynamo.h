// torch.compile and traces: what a trace runs is run as it was written, whoever compiled it.
#pragma once
#include <pybind11/pybind11.h>

namespace diptych::python {

/// While one lives in a trace, functions and modules of torch.compile run as what they were made of, and Dynamo looks
/// at no frame: it would compile the traced function, of stand-ins. Outside a trace, and where nobody has imported
/// Dynamo, it does nothing. Needs the GIL.
class DynamoPause {
 public:
  DynamoPause();
  ~DynamoPause();
  DynamoPause(const DynamoPause&) = delete;
  DynamoPause& operator=(const DynamoPause&) = delete;

 private:
  pybind11::object frames_, callback_, stance_;  ///< torch._dynamo.eval_frame and what it had, where it is paused
};

}  // namespace diptych::python
