// Watches the attributes of tensors that no operator stands for: a trace that meets one is given up.
//
// Note [Attributes of tensors]: a tensor's .grad may be another tensor, or none, at each call, and a graph neither
// reads nor sets it; `.data = ...` gives the tensor other memory, and _version counts the writes. A guard could tell
// what such an attribute was, but only for tensors that it meets, and no graph could set one. So torch's getters and
// setters are replaced by ours, which call torch's unless a trace runs on this thread and the tensor comes from outside
// the trace or is an argument. In that case, .data is read from its stand-in, and for anything else the trace is given
// up, like one that meets a transform (see Note [Transformed calls]), before it leaves anything in the tensor. Tensors
// that the function makes are its own.
#include <descrobject.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>

#include "bindings.h"
#include "diptych/base/error.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/location.h"
#include "diptych/trace/recorder.h"
#include "guards/classes.h"
#include "host_watch.h"

namespace diptych::python {
namespace {

using diptych::detail::Recorder;

struct Attribute {
  const char* name;
  bool is_read;                 ///< whether reading it counts, too
  const PyGetSetDef* torchs{};  ///< null until ours has replaced it
  PyGetSetDef ours{};
};

bool is_of_outside(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!diptych::detail::is_stand_in(tensor)) return true;
  const HostWatch* const watch = HostWatch::current();
  return watch != nullptr && watch->is_argument(tensor);
}

// Returns whether the trace of this thread is given up because of the attribute; if so, sets Python's error.
bool is_refused(const Attribute& attribute, PyObject* object, const char* verb) {
  Recorder* const recorder = Recorder::current();
  if (recorder == nullptr || !THPVariable_Check(object) || !is_of_outside(object)) return false;
  const std::string what = fmt::format("the function {} .{} of a tensor that it is given or captures, at {}", verb,
                                       attribute.name, diptych::detail::current_place().str());
  recorder->note_transform(what);
  PyErr_Format(PyExc_RuntimeError, "a trace is given up: %s", what.c_str());
  return true;
}

// Returns the object to read an attribute from: for a tensor from outside that is met in a trace, its stand-in, so that
// the result shares the stand-in's memory, as .data shares the tensor's.
py::object read_in_trace(PyObject* object) {
  Recorder* const recorder = Recorder::current();
  if (recorder != nullptr && THPVariable_Check(object) && kind_of(object) == Kind::kTensor) {
    try {
      return py::reinterpret_steal<py::object>(THPVariable_Wrap(recorder->stand_in(THPVariable_Unpack(object))));
    } catch (const UserError&) {  // whoever uses the tensor gets this error
    }
  }
  return py::reinterpret_borrow<py::object>(object);
}

PyObject* get(PyObject* object, void* closure) {
  const Attribute& attribute = *static_cast<const Attribute*>(closure);
  if (!attribute.is_read) {
    return attribute.torchs->get(read_in_trace(object).ptr(), attribute.torchs->closure);
  }
  if (is_refused(attribute, object, "reads")) return nullptr;
  return attribute.torchs->get(object, attribute.torchs->closure);
}

int set(PyObject* object, PyObject* value, void* closure) {
  const Attribute& attribute = *static_cast<const Attribute*>(closure);
  if (is_refused(attribute, object, "sets")) return -1;
  return attribute.torchs->set(object, value, attribute.torchs->closure);
}

void watch(Attribute& attribute, PyObject* members) {
  PyObject* const found = PyDict_GetItemString(members, attribute.name);
  if (found == nullptr || Py_TYPE(found) != &PyGetSetDescr_Type) return;
  auto* const descriptor = reinterpret_cast<PyGetSetDescrObject*>(found);
  attribute.torchs = descriptor->d_getset;
  attribute.ours = *attribute.torchs;
  attribute.ours.closure = &attribute;
  attribute.ours.get = &get;
  if (attribute.ours.set != nullptr) attribute.ours.set = &set;
  descriptor->d_getset = &attribute.ours;
}

}  // namespace

void watch_attributes() {
  static std::array attributes{Attribute{"grad", true}, Attribute{"_grad", true}, Attribute{"_version", true},
                               Attribute{"data", false}};
  const py::object members = py::module_::import("torch._C").attr("TensorBase").attr("__dict__");
  const py::dict copy(members);  // a class's members are a read-only view; the copy has the same descriptors
  for (Attribute& attribute : attributes) watch(attribute, copy.ptr());
}

}  // namespace diptych::python
