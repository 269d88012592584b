// tensor[index] in a trace that can't ask for values, with a tensor of no dimensions among the indices: torch would
// read it. Every class of tensors has a slot of its own for this, which holds torch's function or the one of a class in
// Python that calls it; ours takes the place of torch's in each, and classes that are made later inherit it.
#include <descrobject.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bindings.h"
#include "diptych/trace/parts.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/trace_guard.h"
#include "diptych/trace/transforms.h"
#include "tensors.h"

namespace diptych::python {

using namespace detail;
namespace {

binaryfunc torchs_get = nullptr;
objobjargproc torchs_set = nullptr;
PyObject* get_in_trace = nullptr;  // called with (tensor, index)
PyObject* set_in_trace = nullptr;  // called with (tensor, index, value)

// Whether torch takes the value of a tensor for an index. A batched one is an index to it.
bool is_number(PyObject* object) {
  if (!THPVariable_Check(object)) return false;
  const at::Tensor& tensor = THPVariable_Unpack(object);
  return tensor.dim() == 0 && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false) &&
         tensor.scalar_type() != at::kByte && !tensor.key_set().has(c10::DispatchKey::FuncTorchBatched);
}

// Whether there is one in an index, or in a list of numbers that stands for a tensor of indices.
bool has_number(PyObject* index, bool is_inside = false) {
  const bool is_tuple = PyTuple_Check(index);
  if (!is_tuple && !(is_inside && PyList_Check(index))) return is_number(index);
  const Py_ssize_t size = is_tuple ? PyTuple_GET_SIZE(index) : PyList_GET_SIZE(index);
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const one = is_tuple ? PyTuple_GET_ITEM(index, i) : PyList_GET_ITEM(index, i);
    if (is_inside ? is_number(one) : has_number(one, /*is_inside=*/true)) return true;
  }
  return false;
}

bool is_ours(PyObject* index) {
  if (!is_tracing() || !has_number(index)) return false;
  const Recorder& recorder = *Recorder::current();
  return recorder.phase() != Phase::kForward || !recorder.asked_values().may_ask();
}

PyObject* get(PyObject* self, PyObject* index) {
  if (!is_ours(index)) return torchs_get(self, index);
  return PyObject_CallFunctionObjArgs(get_in_trace, self, index, nullptr);
}

int set(PyObject* self, PyObject* index, PyObject* value) {
  if (value == nullptr || !is_ours(index)) return torchs_set(self, index, value);
  PyObject* const none = PyObject_CallFunctionObjArgs(set_in_trace, self, index, value, nullptr);
  Py_XDECREF(none);
  return none == nullptr ? -1 : 0;
}

void replace_slots(PyTypeObject* type) {
  PyMappingMethods* const slots = type->tp_as_mapping;
  if (slots != nullptr && slots->mp_subscript == torchs_get) slots->mp_subscript = &get;
  if (slots != nullptr && slots->mp_ass_subscript == torchs_set) slots->mp_ass_subscript = &set;
  const py::list below =
      py::type(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(type))).attr("__subclasses__")();
  for (const py::handle one : below) replace_slots(reinterpret_cast<PyTypeObject*>(one.ptr()));
}

// Python's names for the slots, by which a class in Python calls them.
void replace_wrapper(const py::dict& members, const char* name, void* function) {
  reinterpret_cast<PyWrapperDescrObject*>(py::object(members[name]).ptr())->d_wrapped = function;
}

void route_subscripts(py::object in_trace_get, py::object in_trace_set) {
  const py::object base = py::module_::import("torch._C").attr("TensorBase");
  auto* const type = reinterpret_cast<PyTypeObject*>(base.ptr());
  torchs_get = type->tp_as_mapping->mp_subscript;
  torchs_set = type->tp_as_mapping->mp_ass_subscript;
  get_in_trace = in_trace_get.release().ptr();
  set_in_trace = in_trace_set.release().ptr();
  const py::dict members(base.attr("__dict__"));
  replace_wrapper(members, "__getitem__", reinterpret_cast<void*>(&get));
  for (const char* const name : {"__setitem__", "__delitem__"}) {
    replace_wrapper(members, name, reinterpret_cast<void*>(&set));
  }
  replace_slots(type);
}

c10::List<std::optional<at::Tensor>> list_of(MaybeTensors indices) {
  c10::List<std::optional<at::Tensor>> list;
  for (auto& index : indices) list.push_back(std::move(index));
  return list;
}

}  // namespace

void bind_routed_subscripts(py::module_& module) {
  module.def("route_subscripts", &route_subscripts, py::arg("get"), py::arg("set"),
             "Has tensor[index] call get(tensor, index) and set(tensor, index, value) in traces where an index is a "
             "tensor whose value nobody can ask for.");
  module.def(
      "torchs_item",
      [](const py::object& tensor, const py::object& index) {
        PyObject* const found = torchs_get(tensor.ptr(), index.ptr());
        if (found == nullptr) throw py::error_already_set();
        return py::reinterpret_steal<py::object>(found);
      },
      py::arg("tensor"), py::arg("index"), "tensor[index] as torch has it.");
  module.def(
      "set_torchs_item",
      [](const py::object& tensor, const py::object& index, const py::object& value) {
        if (torchs_set(tensor.ptr(), index.ptr(), value.ptr()) != 0) throw py::error_already_set();
      },
      py::arg("tensor"), py::arg("index"), py::arg("value"), "tensor[index] = value as torch has it.");
  module.def(
      "snapshot",
      [](const at::Tensor& tensor) {
        Recorder& recorder = *Recorder::current();
        return transform_of(tensor) ? tensor : recorder.snapshot(recorder.stand_in(tensor));
      },
      py::arg("tensor"), "Returns a tensor of the value that a tensor of the trace has now.");
  module.def(
      "take_part",
      [](const at::Tensor& tensor, MaybeTensors indices) {
        return Recorder::current()->parts().take(tensor, list_of(std::move(indices)));
      },
      py::arg("tensor"), py::arg("indices"),
      "Returns the elements of a tensor at these indices, integers or None, which are as a view of it.");
  module.def(
      "shows_part",
      [](const at::Tensor& part, const at::Tensor& tensor, MaybeTensors indices) {
        Recorder& recorder = *Recorder::current();
        return recorder.parts().shows(part, tensor, list_of(std::move(indices)), recorder);
      },
      py::arg("part"), py::arg("tensor"), py::arg("indices"), "Whether a tensor is that part of another one.");
}

}  // namespace diptych::python
