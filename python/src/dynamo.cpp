#include "dynamo.h"

#include "diptych/trace/recorder.h"

namespace diptych::python {

namespace py = pybind11;

DynamoPause::DynamoPause() {
  if (diptych::detail::Recorder::current() == nullptr) return;
  PyObject* const found = PyDict_GetItemString(PyImport_GetModuleDict(), "torch._dynamo.eval_frame");
  if (found == nullptr) return;
  const auto frames = py::reinterpret_borrow<py::object>(found);
  const py::object eager = frames.attr("DynamoStance")("force_eager");
  stance_ = frames.attr("_stance");
  callback_ = frames.attr("set_eval_frame")(py::none());
  frames.attr("_stance") = eager;  // not set_stance(), which imports what it does not need
  frames_ = frames;
}

DynamoPause::~DynamoPause() {
  if (!frames_) return;
  frames_.attr("_stance") = stance_;
  frames_.attr("set_eval_frame")(callback_);
}

}  // namespace diptych::python
