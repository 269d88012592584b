#include "held.h"

#include <pybind11/gil_safe_call_once.h>

#include <string_view>
#include <unordered_map>

#include "kinds.h"

namespace diptych::python {
namespace {

/// What is known of classes. One is kept alive, so that its address stays its own.
template <class Fact>
class ByType {
 public:
  template <class Find>
  Fact get(PyTypeObject* type, const Find& find) {
    if (const auto known = facts_->find(type); known != facts_->end()) return known->second;
    const Fact fact = find(py::handle(reinterpret_cast<PyObject*>(type)));
    if (facts_->emplace(type, fact).second) Py_INCREF(type);
    return fact;
  }

 private:
  std::unordered_map<PyTypeObject*, Fact>* const facts_ = new std::unordered_map<PyTypeObject*, Fact>;
};

/// Classes of the standard library, and where its files are.
struct Standard {
  py::object modules = py::module_::import("sys").attr("stdlib_module_names");
  std::string folder = py::module_::import("sysconfig").attr("get_path")("stdlib").cast<std::string>() + "/";
  py::object partial = py::module_::import("functools").attr("partial");
  py::object enumeration = py::module_::import("enum").attr("Enum");
  py::object namespaces = py::make_tuple(py::module_::import("types").attr("SimpleNamespace"),
                                         py::module_::import("argparse").attr("Namespace"));
};

const Standard& standard() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Standard> storage;
  return storage.call_once_and_store_result([] { return Standard(); }).get_stored();
}

py::list find_slots(py::handle type) {
  py::list slots;
  for (const py::handle base : type.attr("__mro__")) {
    py::object names = py::getattr(base, "__slots__", py::tuple());
    if (PyUnicode_Check(names.ptr())) names = py::make_tuple(names);
    for (const py::handle name : names) {
      if (!name.equal(py::str("__dict__")) && !name.equal(py::str("__weakref__"))) slots.append(name);
    }
  }
  return slots;
}

py::list slots_of(PyTypeObject* type) {
  static ByType<PyObject*> known;
  return py::reinterpret_borrow<py::list>(
      known.get(type, [](py::handle of) { return find_slots(of).release().ptr(); }));
}

bool has_attributes(py::handle object) {
  const py::object offset = py::type::of(object).attr("__dictoffset__");
  return offset.cast<Py_ssize_t>() != 0 || !slots_of(Py_TYPE(object.ptr())).empty();
}

std::string package_of(py::handle type) {
  const auto module = py::str(py::getattr(type, "__module__", py::str())).cast<std::string>();
  return module.substr(0, module.find('.'));
}

Holds find_holds(py::handle object) {
  const Standard& known = standard();
  if (PyAnySet_Check(object.ptr())) return Holds::kElements;
  if (py::isinstance(object, known.partial)) return Holds::kArguments;
  if (PyType_Check(object.ptr())) return Holds::kClass;
  if (py::isinstance(object, known.enumeration)) return Holds::kNothing;
  const py::object type = py::type::of(object);
  if (!known.namespaces.contains(type) && known.modules.contains(package_of(type))) return Holds::kNothing;
  return has_attributes(object) ? Holds::kAttributes : Holds::kNothing;
}

}  // namespace

Holds holds(py::handle object) {
  static ByType<Holds> known;
  return known.get(Py_TYPE(object.ptr()), [&](py::handle) { return find_holds(object); });
}

bool is_class_of_library(py::handle type) {
  static ByType<bool> known;
  return known.get(reinterpret_cast<PyTypeObject*>(type.ptr()), [](py::handle of) {
    const std::string package = package_of(of);
    return package == "torch" || package == "numpy" || package == "diptych" || standard().modules.contains(package);
  });
}

py::dict attributes_of(py::handle object) {
  py::dict attributes;
  if (PyObject* const members = PyObject_GenericGetDict(object.ptr(), nullptr)) {
    attributes = py::reinterpret_steal<py::dict>(members);
  } else {
    PyErr_Clear();
  }
  const py::list slots = slots_of(Py_TYPE(object.ptr()));
  if (slots.empty()) return attributes;
  attributes = attributes.attr("copy")();
  for (const py::handle name : slots) {
    if (PyObject* const value = PyObject_GenericGetAttr(object.ptr(), name.ptr())) {
      attributes[name] = py::reinterpret_steal<py::object>(value);
    } else {
      PyErr_Clear();
    }
  }
  return attributes;
}

bool is_of_library(PyObject* function) {
  PyObject* const globals = PyFunction_GetGlobals(function);
  const auto text = [&](const char* key) {
    PyObject* const value = PyDict_GetItemString(globals, key);
    const char* const found = value != nullptr && PyUnicode_Check(value) ? PyUnicode_AsUTF8(value) : nullptr;
    return found == nullptr ? std::string_view() : std::string_view(found);
  };
  const std::string_view file = text("__file__"), name = text("__name__");
  return file.find("/site-packages/") != file.npos || file.find("/dist-packages/") != file.npos ||
         file.starts_with(standard().folder) || name == "diptych" || name.starts_with("diptych.");
}

PyObject* users_function(PyObject* callable) {
  static ByType<bool> remembers;  // functools.lru_cache
  while (callable != nullptr) {
    PyObject* attributes = nullptr;
    if (PyFunction_Check(callable)) {
      if (!is_of_library(callable)) return callable;
      attributes = reinterpret_cast<PyFunctionObject*>(callable)->func_dict;
    } else if (remembers.get(Py_TYPE(callable), [](py::handle type) {
                 return type.attr("__qualname__").cast<std::string>() == "_lru_cache_wrapper";
               })) {
      attributes = py::handle(callable).attr("__dict__").ptr();  // which the callable holds
    }
    callable = attributes == nullptr ? nullptr : PyDict_GetItemString(attributes, "__wrapped__");
  }
  return nullptr;
}

py::object method_behind(py::handle attribute) {
  const PyTypeObject* const type = Py_TYPE(attribute.ptr());
  if (type == &PyProperty_Type) return attribute.attr("fget");
  if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) return attribute.attr("__func__");
  return py::reinterpret_borrow<py::object>(attribute);
}

std::weak_ptr<const void> lifetime_if_any(py::handle object) {
  const bool is_referable = Py_TYPE(object.ptr())->tp_weaklistoffset != 0;
  return is_referable ? lifetime_of(object) : std::weak_ptr<const void>();
}

}  // namespace diptych::python
