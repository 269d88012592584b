// Attributes of tensors that no operator stands for: a trace that meets one is given up.
//
// Note [Attributes of tensors]: a tensor's .grad is another tensor, or none, at each call, and a graph neither reads
// nor sets it; `.data = ...` gives it another memory, and _version counts what was written. A guard could tell what
// such an attribute was, but only for tensors that it meets, and no graph could set one. So torch's getters and setters
// are replaced by ours, which pass on what they are asked except where a trace runs on this thread and the tensor is
// one of outside, or an argument: .data is then read of its stand-in, and for anything else the trace is given up, as
// one that meets a transform is (see Note [Transformed calls]), before anything of it is left in the tensor. Tensors
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
#include "host_watch.h"
#include "kinds.h"

namespace diptych::python {
namespace {

using diptych::detail::Recorder;

struct Attribute {
  const char* name;
  bool is_read;                 ///< whether reading it counts, too
  const PyGetSetDef* torchs{};  ///< null until ours stands in its place
  PyGetSetDef ours{};
};

bool is_of_outside(PyObject* object) {
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (!diptych::detail::is_stand_in(tensor)) return true;
  const HostWatch* const watch = HostWatch::current();
  return watch != nullptr && watch->is_argument(tensor);
}

// Whether the trace of this thread is given up for it; sets Python's error.
bool is_refused(const Attribute& attribute, PyObject* object, const char* verb) {
  Recorder* const recorder = Recorder::current();
  if (recorder == nullptr || !THPVariable_Check(object) || !is_of_outside(object)) return false;
  const std::string what = fmt::format("the function {} .{} of a tensor that it is given or captures, at {}", verb,
                                       attribute.name, diptych::detail::current_place().str());
  recorder->note_transform(what);
  PyErr_Format(PyExc_RuntimeError, "a trace is given up: %s", what.c_str());
  return true;
}

// What the attributes of `object` are read of: for one of outside that is met in a trace, its stand-in, so that the
// tensor that is read shares the stand-in's memory, as .data shares the tensor's.
py::object read_in_trace(PyObject* object) {
  Recorder* const recorder = Recorder::current();
  if (recorder != nullptr && THPVariable_Check(object) && kind_of(object) == Kind::kTensor) {
    try {
      return py::reinterpret_steal<py::object>(THPVariable_Wrap(recorder->stand_in(THPVariable_Unpack(object))));
    } catch (const UserError&) {  // which whoever uses the tensor is told
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
  const py::dict copy(members);  // of the view of a class's members; the descriptors are the same
  for (Attribute& attribute : attributes) watch(attribute, copy.ptr());
}

}  // namespace diptych::python
