// Numbers that a traced Python function has asked for, and that are tensors of the trace as long as nothing needs their
// values: see Note [Open numbers] in trace/host_numbers.h, and diptych/_host/numbers/.
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/utils/python_symnode.h>

#include "bindings.h"
#include "diptych/base/check.h"
#include "diptych/trace/host_numbers.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/traced_writes.h"
#include "diptych/trace/transforms.h"
#include "guards/classes.h"
#include "tensors.h"

namespace diptych::python {

using namespace detail;
namespace {

// The tensor of a node of _host/numbers/.
at::Tensor tensor_of(py::handle node) {
  const py::object tensor = py::getattr(node, "diptych_tensor", py::none());
  if (THPVariable_Check(tensor.ptr())) return THPVariable_Unpack(tensor.ptr());
  const py::object value = py::getattr(node, "value", py::none());
  if (value.is_none()) return {};
  if (PyLong_Check(value.ptr())) return at::scalar_tensor(value.cast<int64_t>(), at::kLong);
  return at::scalar_tensor(value.cast<double>(), at::kDouble);  // of a closed one
}

at::Tensor of_node(const c10::SymNodeImpl& node) {
  const auto* const of_python = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(&node);
  if (of_python == nullptr) return {};
  const py::gil_scoped_acquire gil;
  return tensor_of(of_python->getPyObj());
}

// LibTorch's binding keeps the number as an attribute of the tensor that it makes of it.
at::Tensor of_tensor(const at::Tensor& number) {
  const py::gil_scoped_acquire gil;
  const auto wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(number));
  const py::object given = py::getattr(wrapped, "_wrapped_number", py::none());
  return given.is_none() ? at::Tensor() : tensor_of(py::getattr(given, "node", py::none()));
}

at::Scalar value_of_tensor(const at::Tensor& number) {
  const py::gil_scoped_acquire gil;
  const auto wrapped = py::reinterpret_steal<py::object>(THPVariable_Wrap(number));
  const py::object node = wrapped.attr("_wrapped_number").attr("node");
  const bool is_integer = c10::isIntegralType(number.scalar_type(), /*includeBool=*/false);
  const py::object value = node.attr(is_integer ? "guard_int" : "guard_float")("", 0);
  return is_integer ? at::Scalar(value.cast<int64_t>()) : at::Scalar(value.cast<double>());
}

// Whether the value of a tensor may stay open in the trace that runs on this thread.
bool may_stay_open(const py::object& object) {
  const Recorder* const recorder = Recorder::current();
  if (recorder == nullptr || recorder->phase() != Phase::kForward || !recorder->asked_values().may_ask()) return false;
  if (kind_of(object) > Kind::kCarrier) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
  const at::ScalarType dtype = tensor.scalar_type();
  const bool is_signed = at::isSignedType(dtype) && !tensor.is_complex();  // or small, so that it is one of 64 bits
  return (is_signed || dtype == at::kByte) && tensor.numel() == 1 && !transform_of(tensor);
}

PyObject* close_all = nullptr;  // of _host/numbers/base.py

void set_open_numbers_of_python(py::tuple floats, py::tuple integers, py::object close) {
  set_classes_of_open_numbers(std::move(floats), std::move(integers));
  close_all = close.release().ptr();
}

// The number of the trace that runs on this thread; 0 outside of all.
uint64_t trace_number() { return Recorder::current() == nullptr ? 0 : Recorder::current()->id(); }

// The same, for a number that is handed to the function. An exception that follows may be raised by what knows no
// number but its language's own, so the function itself will run.
uint64_t lend_number() {
  ++traced_writes;
  return trace_number();
}

// The value of an open number, in the trace that made it. Outside of its trace nobody knows it.
py::object value_of_number(const at::Tensor& tensor, uint64_t trace) {
  Recorder* const recorder = recorder_of(trace);
  DIPTYCH_CHECK(recorder != nullptr,
                "[capture] got a number of item() from a trace that has ended, whose value is not known; return it "
                "from the traced function, or ask for it again");
  at::Scalar number;
  {
    const py::gil_scoped_release release;  // a generator may be locked, whose owner waits for the GIL
    AskedValues& asked = recorder->asked_values();
    const Value value = recorder->value_of(tensor);
    const PauseTraceGuard real;
    number = asked.ask(value, Question::kElements, with_place("Tensor.item")).item();
  }
  if (number.isIntegral(/*includeBool=*/false)) return py::int_(number.toLong());
  return py::float_(number.toDouble());
}

}  // namespace

void close_open_numbers() {
  const Recorder* const recorder = Recorder::current();
  const py::handle close(close_all);
  if (recorder != nullptr && recorder->asked_values().may_ask()) close();
}

void bind_open_numbers(py::module_& module) {
  static constexpr OpenNumbers kNumbers{of_node, of_tensor, value_of_tensor};
  set_open_numbers(&kNumbers);
  module.def("set_open_numbers", &set_open_numbers_of_python, py::arg("floats"), py::arg("integers"),
             py::arg("close_all"),
             "Sets the classes of open floats and integers, in their traces and after them, and what ends them.");
  module.def("may_stay_open", &may_stay_open, py::arg("tensor"),
             "Whether item() of a tensor may be a number that is computed anew in each call.");
  module.def("trace_number", &trace_number, "The number of the trace that runs on this thread; 0 outside of all.");
  module.def("lend_number", &lend_number, "The same, for an open number that is handed to the traced function.");
  module.def("value_of_number", &value_of_number, py::arg("tensor"), py::arg("trace"),
             "The value of an open number, for which alone the capture then holds.");
}

}  // namespace diptych::python
