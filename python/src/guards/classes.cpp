#include "guards/classes.h"

#include <fmt/format.h>
#include <pybind11/gil_safe_call_once.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "diptych/base/error.h"
#include "guards/by_address.h"
#include "guards/keys.h"

namespace diptych::python {
namespace {

/// Objects of torch and the standard library, looked up once.
struct Known {
  py::object module = py::module_::import("torch.nn").attr("Module");
  py::object tensors = py::make_tuple(
      py::module_::import("torch").attr("Tensor"), py::module_::import("torch.nn").attr("Parameter"),
      py::module_::import("torch.nn").attr("Buffer"), py::module_::import("diptych._specs").attr("Spec"));
  py::object enumeration = py::module_::import("enum").attr("Enum");
  py::object values = py::module_::import("diptych._tree").attr("values_of_the_standard_library")();
  py::object registered = py::module_::import("torch.utils._pytree").attr("SUPPORTED_NODES");
  py::object is_dataclass = py::module_::import("dataclasses").attr("is_dataclass");
  py::object field_names = py::module_::import("diptych._host.packed").attr("field_names");
  py::object absent = py::module_::import("diptych._tree").attr("ABSENT");
  py::object absent_of = py::module_::import("diptych._tree").attr("absent_of");
  py::object uninitialized = py::module_::import("torch.nn.parameter").attr("UninitializedTensorMixin");
};

const Known& known() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Known> storage;
  return storage.call_once_and_store_result([] { return Known(); }).get_stored();
}

bool is_numpy_scalar(PyTypeObject* type) {
  const py::handle bases = type->tp_mro;
  return std::any_of(bases.begin(), bases.end(), [](py::handle base) {
    return std::string_view(reinterpret_cast<PyTypeObject*>(base.ptr())->tp_name) == "numpy.generic";
  });
}

bool is_constant(PyObject* object) {
  return object == Py_None || PyBool_Check(object) || PyLong_Check(object) || PyFloat_Check(object) ||
         PyComplex_Check(object) || PyUnicode_Check(object) || PySlice_Check(object) || PyRange_Check(object) ||
         PyBytes_Check(object) || object == Py_Ellipsis || is_numpy_scalar(Py_TYPE(object)) || THPDtype_Check(object) ||
         THPDevice_Check(object) || THPLayout_Check(object) || THPMemoryFormat_Check(object);
}

/// The classes of open numbers, in their traces and after them.
using OpenClasses = std::array<PyTypeObject*, 2>;
OpenClasses open_floats{}, open_integers{};

bool is_among(const OpenClasses& classes, py::handle object) {
  const PyTypeObject* const type = Py_TYPE(object.ptr());
  return type == classes[0] || type == classes[1];
}

// A class may be given to a stand-in, and to a result, if its objects hold no more than a tensor and a dict.
Kind kind_of_tensor(py::handle object, const py::object& type) {
  if (known().tensors.contains(type)) return Kind::kTensor;
  const auto* const plain = reinterpret_cast<PyTypeObject*>(THPVariableClass);
  const bool has_same_layout = Py_TYPE(object.ptr())->tp_basicsize == plain->tp_basicsize;
  const bool dispatches = !type.attr("__torch_dispatch__").is(py::handle(THPVariableClass).attr("__torch_dispatch__"));
  return dispatches || !has_same_layout || is_uninitialized(object) ? Kind::kSubclass : Kind::kCarrier;
}

Kind find_kind(py::handle object) {
  PyObject* const pointer = object.ptr();
  const py::object type = py::type::of(object);
  if (THPVariable_Check(pointer)) return kind_of_tensor(object, type);
  if (type.is(py::type::of(known().absent))) return Kind::kAbsent;
  if (is_constant(pointer) || is_open_number(object) || known().values.contains(type)) return Kind::kConstant;
  if (PyList_CheckExact(pointer)) return Kind::kList;
  // Results such as torch.return_types.sort are tuples, too.
  if (PyTuple_CheckExact(pointer) || THPSize_Check(pointer)) return Kind::kTuple;
  if (PyTuple_Check(pointer) && py::hasattr(type, "_fields")) return Kind::kNamedTuple;
  if (PyTuple_Check(pointer)) return known().registered.contains(type) ? Kind::kRegistered : Kind::kTuple;
  if (PyDict_Check(pointer)) return Kind::kDict;
  if (py::isinstance(object, known().module)) return Kind::kModule;
  if (known().registered.contains(type)) return Kind::kRegistered;
  if (!PyType_Check(pointer) && known().is_dataclass(object).cast<bool>()) return Kind::kDataclass;
  return Kind::kObject;
}

}  // namespace

std::string type_name(py::handle object) {
  const auto type = py::type::of(object);
  const auto module = type.attr("__module__").cast<std::string>();
  const auto name = type.attr("__qualname__").cast<std::string>();
  return module == "builtins" ? name : module + "." + name;
}

Kind kind_of(py::handle object) {
  static ByType<Kind> kinds;
  return kinds.get(Py_TYPE(object.ptr()), [&](py::handle) { return find_kind(object); });
}

bool is_open_number(py::handle object) { return is_among(open_floats, object) || is_among(open_integers, object); }

void set_classes_of_open_numbers(py::tuple floats, py::tuple integers) {
  const auto keep = [](py::tuple&& classes, OpenClasses& kept) {
    for (size_t i = 0; i < kept.size(); ++i) {
      kept[i] = reinterpret_cast<PyTypeObject*>(py::object(classes[i]).release().ptr());
    }
  };
  keep(std::move(floats), open_floats);
  keep(std::move(integers), open_integers);
}

py::object closed_number(py::handle object) {
  if (!is_open_number(object)) return py::reinterpret_borrow<py::object>(object);
  PyObject* const value = is_among(open_integers, object) ? PyNumber_Long(object.ptr()) : PyNumber_Float(object.ptr());
  auto number = py::reinterpret_steal<py::object>(value);
  if (!number) throw py::error_already_set();
  return number;
}

py::handle absent_tensor() { return known().absent; }

py::object absent_tensor_of(py::handle type) { return known().absent_of(type); }

bool is_uninitialized(py::handle object) { return py::isinstance(object, known().uninitialized); }

std::weak_ptr<const void> lifetime_of(py::handle object) {
  static auto* const lifetimes = new std::unordered_map<PyObject*, std::shared_ptr<const char>>;
  PyObject* const address = object.ptr();
  if (const auto found = lifetimes->find(address); found != lifetimes->end()) return found->second;
  auto life = std::make_shared<const char>();
  if (PyType_Check(address) || py::isinstance(object, known().enumeration)) {
    object.inc_ref();  // it stays for good
    return lifetimes->emplace(address, life).first->second;
  }
  const auto end = py::cpp_function([address](py::handle reference) {
    lifetimes->erase(address);
    reference.dec_ref();
  });
  PyObject* const reference = PyWeakref_NewRef(address, end.ptr());
  if (reference == nullptr) {
    PyErr_Clear();
    throw NoTree(fmt::format(
        "[tree] got an object of type {}, expected tensors, numbers, strings, lists, tuples, dicts, dataclasses, "
        "modules, or classes registered with torch.utils._pytree; pass its tensors and numbers instead",
        type_name(object)));
  }
  lifetimes->emplace(address, life);
  return life;
}

py::tuple field_names(py::handle dataclass) { return known().field_names(dataclass); }

Parts parts_of(py::handle object) {
  const py::tuple parts = known().registered[py::type::of(object)].attr("flatten_fn")(object);
  return {py::list(parts[0]), parts[1]};
}

py::object from_parts(py::handle type, py::list children, const py::object& context) {
  return known().registered[type].attr("unflatten_fn")(children, context);
}

}  // namespace diptych::python
