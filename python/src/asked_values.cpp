// What Python code reads of a tensor's memory while it is traced: tolist() and numpy() call no operator.
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <pybind11/stl.h>

#include "bindings.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/transforms.h"
#include "guards/classes.h"
#include "tensors.h"

namespace diptych::python {

using namespace detail;
namespace {

const at::Tensor& unpacked(const py::object& tensor) { return THPVariable_Unpack(tensor.ptr()); }

// Whether the values of a tensor can be had in the trace that runs on this thread.
bool may_ask(const py::object& tensor) {
  const Recorder* const recorder = Recorder::current();
  return recorder != nullptr && recorder->phase() == Phase::kForward && recorder->asked_values().may_ask() &&
         kind_of(tensor) <= Kind::kCarrier && !transform_of(unpacked(tensor));
}

// Returns a tensor of these elements that lies in memory as the one of eager does, whose strides an array shows.
at::Tensor laid_out(const at::Tensor& elements, c10::IntArrayRef strides) {
  at::Tensor copy = at::empty_strided(elements.sizes(), strides, elements.options());
  at::Tensor target = copy, source = elements;
  for (int64_t dim = 0; dim < elements.dim(); ++dim) {
    if (strides[dim] != 0 || elements.size(dim) < 2) continue;
    target = target.narrow(dim, 0, 1);
    source = source.narrow(dim, 0, 1);
  }
  target.copy_(source);
  return copy;
}

// Calls a method of torch on the value that a tensor of the trace has now; `is_guarded`: whether the capture is to hold
// for this value alone. Returns what the method returns, with the number of the value. Requires: may_ask().
std::pair<py::object, int64_t> call_on_value(const py::object& method, const py::object& tensor,
                                             const std::string& what, bool is_guarded, const py::kwargs& keywords) {
  Recorder& recorder = *Recorder::current();
  const at::Tensor stand_in = recorder.stand_in(unpacked(tensor));
  const Value value = recorder.value_of(stand_in);
  AskedValues& asked = recorder.asked_values();
  const at::Tensor answer = is_guarded ? asked.ask(value, Question::kElements, with_place(what)) : asked.compute(value);
  const PauseTraceGuard real;
  at::Tensor given = answer;
  if (!answer.is_conj() && !answer.is_neg()) {  // what numpy() refuses
    const c10::NoGradGuard no_grad;
    given = laid_out(answer, stand_in.strides());
    given.set_requires_grad(stand_in.requires_grad());
  }
  return {method(given, **keywords), value.id};
}

}  // namespace

void bind_asked_values(py::module_& module) {
  module.def("may_ask", &may_ask, py::arg("tensor"),
             "Whether the value of a tensor can be had in the trace that runs on this thread.");
  module.def(
      "with_place", [](const std::string& what) { return with_place(what); }, py::arg("what"),
      "What is met in a trace, with the scopes and the line of the function.");
  module.def("call_on_value", &call_on_value, py::arg("method"), py::arg("tensor"), py::arg("what"),
             py::arg("is_guarded"),
             "Returns method(value of the tensor, **keywords), and the number of the value in the trace.");
  module.def(
      "give_up",
      [](const std::string& what) {
        if (Recorder* const recorder = Recorder::current()) recorder->note_transform(what);
      },
      py::arg("what"), "Gives up the trace that runs on this thread: the function itself runs, which does `what`.");
  module.def(
      "value_number",
      [](const at::Tensor& tensor) {
        Recorder& recorder = *Recorder::current();
        return int64_t{recorder.value_of(recorder.stand_in(tensor)).id};
      },
      py::arg("tensor"),
      "The number of the value that a tensor of the trace has now; it has another once it is written to.");
}

}  // namespace diptych::python
