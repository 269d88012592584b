// What Python code reads of a tensor's memory while it is traced: tolist() and numpy() call no operator.
//
// The definitions of these methods are replaced, as those of attributes are (watched_attributes.cpp), and not the
// methods: Dynamo knows these as they are.
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <descrobject.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>

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
         kind_of(tensor) == Kind::kTensor && !transform_of(unpacked(tensor));
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

// A method of tensors, and what takes its place in a trace.
struct Method {
  const char* name;
  PyMethodDef ours{};
  const PyMethodDef* definition{};  ///< torch's
  py::object torchs{};              ///< the method as it was
  py::object in_trace{};            ///< called with torchs and the arguments
};

std::array<Method, 2>& methods() {
  static auto* const kept = new std::array<Method, 2>{Method{"tolist"}, Method{"numpy"}};
  return *kept;
}

PyCFunctionWithKeywords with_keywords(PyCFunction function) {
  return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(function));
}

PyObject* call_in_trace(const Method& method, PyObject* self, PyObject* args, PyObject* keywords) {
  try {
    const auto given = args == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(args);
    const auto named = keywords == nullptr ? py::dict() : py::reinterpret_borrow<py::dict>(keywords);
    return method.in_trace(method.torchs, py::handle(self), *given, **named).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

PyObject* call_tolist(PyObject* self, PyObject* none) {
  const Method& method = methods()[0];
  return is_tracing() ? call_in_trace(method, self, nullptr, nullptr) : method.definition->ml_meth(self, none);
}

PyObject* call_numpy(PyObject* self, PyObject* args, PyObject* keywords) {
  const Method& method = methods()[1];
  if (is_tracing()) return call_in_trace(method, self, args, keywords);
  return with_keywords(method.definition->ml_meth)(self, args, keywords);
}

// Has a method call `in_trace` in traces. Requires: torch defines it in C.
void route(Method& method, const py::dict& members, const py::object& in_trace) {
  auto* const descriptor = reinterpret_cast<PyMethodDescrObject*>(py::object(members[method.name]).ptr());
  PyTypeObject* const type = descriptor->d_common.d_type;
  method.torchs = py::reinterpret_steal<py::object>(PyDescr_NewMethod(type, descriptor->d_method));
  method.in_trace = in_trace;
  method.definition = descriptor->d_method;
  method.ours = *method.definition;
  method.ours.ml_meth = method.ours.ml_flags == METH_NOARGS
                            ? &call_tolist
                            : reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_numpy));
  descriptor->d_method = &method.ours;
}

}  // namespace

void bind_asked_values(py::module_& module) {
  module.def("may_ask", &may_ask, py::arg("tensor"),
             "Whether the value of a tensor can be had in the trace that runs on this thread.");
  module.def("call_on_value", &call_on_value, py::arg("method"), py::arg("tensor"), py::arg("what"),
             py::arg("is_guarded"),
             "Returns method(value of the tensor, **keywords), and the number of the value in the trace.");
  module.def(
      "route_memory",
      [](const py::object& in_trace) {
        const py::dict members(py::module_::import("torch._C").attr("TensorBase").attr("__dict__"));
        for (Method& method : methods()) route(method, members, in_trace);
      },
      py::arg("in_trace"), "Has tolist() and numpy() call in_trace(method, tensor, **keywords) in traces.");
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
