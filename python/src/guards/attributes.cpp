#include "guards/attributes.h"

#include <pybind11/gil_safe_call_once.h>

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "diptych/tree/spec.h"
#include "guards/by_address.h"
#include "guards/classes.h"

namespace diptych::python {
namespace {

/// Classes of the standard library, and where its files are.
struct Standard {
  py::object modules = py::module_::import("sys").attr("stdlib_module_names");
  std::string folder = py::module_::import("sysconfig").attr("get_path")("stdlib").cast<std::string>() + "/";
  py::object partial = py::module_::import("functools").attr("partial");
  py::object cached_property = py::module_::import("functools").attr("cached_property");
  py::object partial_method = py::module_::import("functools").attr("partialmethod");
  py::object dispatched_method = py::module_::import("functools").attr("singledispatchmethod");
  py::object deque = py::module_::import("collections").attr("deque");
  py::object local = py::module_::import("_thread").attr("_local");
  py::object read_only = py::module_::import("types").attr("MappingProxyType");
  py::object enumeration = py::module_::import("enum").attr("Enum");
  py::object namespaces = py::make_tuple(py::module_::import("types").attr("SimpleNamespace"),
                                         py::module_::import("argparse").attr("Namespace"));
};

const Standard& standard() {
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<Standard> storage;
  return storage.call_once_and_store_result([] { return Standard(); }).get_stored();
}

// Returns the mangled name that Python gives a private attribute of a class.
py::str mangled(py::handle name, py::handle type) {
  const auto text = name.cast<std::string>();
  if (!text.starts_with("__") || text.ends_with("__")) return py::str(text);
  const auto owner = type.attr("__name__").cast<std::string>();
  const size_t start = owner.find_first_not_of('_');
  return py::str(start == owner.npos ? text : "_" + owner.substr(start) + text);
}

py::list find_slots(py::handle type) {
  py::list slots;
  for (const py::handle base : type.attr("__mro__")) {
    py::object names = py::getattr(base, "__slots__", py::tuple());
    if (PyUnicode_Check(names.ptr())) names = py::make_tuple(names);
    for (const py::handle name : names) {
      if (!name.equal(py::str("__dict__")) && !name.equal(py::str("__weakref__"))) slots.append(mangled(name, base));
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

AttributeSource find_holds(py::handle object) {
  const Standard& known = standard();
  if (PyAnySet_Check(object.ptr())) return AttributeSource::kElements;
  if (py::isinstance(object, known.partial)) return AttributeSource::kArguments;
  if (PyType_Check(object.ptr())) return AttributeSource::kClass;
  if (py::isinstance(object, known.enumeration)) return AttributeSource::kNothing;
  if (PyObject_CheckBuffer(object.ptr()) != 0) return AttributeSource::kMemory;
  const py::object type = py::type::of(object);
  if (type.is(known.read_only)) return AttributeSource::kMapping;
  if (PyDictViewSet_Check(object.ptr()) || PyDictValues_Check(object.ptr())) return AttributeSource::kView;
  if (PyWeakref_Check(object.ptr())) return AttributeSource::kReference;
  if (py::isinstance(object, known.local)) return AttributeSource::kAttributes;
  const std::string package = package_of(type);  // UserDict, WeakKeyDictionary, Queue
  const bool is_collection = package == "collections" || package == "weakref" || package == "queue";
  if (is_collection && has_attributes(object)) return AttributeSource::kAttributes;
  if (!known.namespaces.contains(type) && known.modules.contains(package)) return AttributeSource::kNothing;
  return has_attributes(object) ? AttributeSource::kAttributes : AttributeSource::kNothing;
}

// Hashes only a sample of many bytes, since a guard should not cost more than the call that it guards.
uint64_t hash_of_bytes(std::string_view bytes, uint64_t hash) {
  constexpr size_t kAll = size_t{1} << 20, kBlock = 64;
  const size_t step = std::max(kBlock, bytes.size() / (kAll / kBlock));
  if (bytes.size() <= kAll) return std::hash<std::string_view>()(bytes) ^ hash;
  for (size_t i = 0; i < bytes.size(); i += step) {
    hash = diptych::detail::mix(hash, 0, std::hash<std::string_view>()(bytes.substr(i, kBlock)));
  }
  return hash;
}

}  // namespace

AttributeSource holds(py::handle object) {
  static ByType<AttributeSource> known;
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
    static ByType<bool> locals;
    const bool is_local =
        locals.get(Py_TYPE(object.ptr()), [&](py::handle) { return py::isinstance(object, standard().local); });
    if (is_local) return object.attr("__dict__");
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

bool is_deque(py::handle object) {
  static ByType<bool> known;
  return known.get(Py_TYPE(object.ptr()), [&](py::handle) { return py::isinstance(object, standard().deque); });
}

py::dict attributes_beside(py::handle object) {
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (PyFunction_Check(object.ptr())) {  // asking Python for its dict would make one
    PyObject* const members = reinterpret_cast<PyFunctionObject*>(object.ptr())->func_dict;
    return members == nullptr ? py::dict() : py::reinterpret_borrow<py::dict>(members);
  }
  if (type->tp_dictoffset == 0) return {};
  PyObject* const members = PyObject_GenericGetDict(object.ptr(), nullptr);
  if (members == nullptr) return PyErr_Clear(), py::dict();
  return py::reinterpret_steal<py::dict>(members);
}

py::object bound_to(py::handle object) {
  PyObject* bound = nullptr;
  if (PyCFunction_Check(object.ptr())) bound = PyCFunction_GET_SELF(object.ptr());
  static PyTypeObject* const method_wrapper = Py_TYPE(py::none().attr("__str__").ptr());  // no name in C from 3.13 on
  if (Py_TYPE(object.ptr()) == method_wrapper) return object.attr("__self__");
  return bound == nullptr || PyModule_Check(bound) ? py::object() : py::reinterpret_borrow<py::object>(bound);
}

py::object attributes_of_tensor(py::handle tensor) {
  auto members = py::reinterpret_steal<py::object>(PyObject_GenericGetDict(tensor.ptr(), nullptr));
  if (!members) throw py::error_already_set();
  return PyDict_GET_SIZE(members.ptr()) == 0 ? py::object() : std::move(members);
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
  const auto is = [type](const py::object& kind) { return reinterpret_cast<const PyObject*>(type) == kind.ptr(); };
  if (type == &PyStaticMethod_Type || type == &PyClassMethod_Type) return attribute.attr("__func__");
  if (is(standard().cached_property) || is(standard().partial_method)) return attribute.attr("func");
  if (is(standard().dispatched_method)) return attribute.attr("dispatcher");
  return py::reinterpret_borrow<py::object>(attribute);
}

bool is_all_it_holds(py::handle object) {
  if (PyAnySet_Check(object.ptr())) return true;
  return Py_TYPE(object.ptr())->tp_weaklistoffset == 0 && holds(object) == AttributeSource::kAttributes;
}

std::optional<uint64_t> hash_of_memory(py::handle object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_FULL_RO) != 0) return PyErr_Clear(), std::nullopt;
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> release(&view, &PyBuffer_Release);
  const std::string_view format = view.format == nullptr ? "B" : view.format;
  if (format.find('O') != format.npos) return std::nullopt;
  uint64_t hash = std::hash<std::string_view>()(format);
  for (int i = 0; i < view.ndim; ++i) hash = diptych::detail::mix(hash, 0, static_cast<uint64_t>(view.shape[i]));
  const auto size = static_cast<size_t>(view.len);
  if (PyBuffer_IsContiguous(&view, 'C') != 0) return hash_of_bytes({static_cast<const char*>(view.buf), size}, hash);
  std::string bytes(size, '\0');
  if (PyBuffer_ToContiguous(bytes.data(), &view, view.len, 'C') != 0) return PyErr_Clear(), std::nullopt;
  return hash_of_bytes(bytes, hash);
}

diptych::detail::MemoryRange memory_of(py::handle object) {
  Py_buffer view;
  if (PyObject_CheckBuffer(object.ptr()) == 0) return {};
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_STRIDED_RO) != 0)
    return PyErr_Clear(), diptych::detail::MemoryRange();
  const std::unique_ptr<Py_buffer, void (*)(Py_buffer*)> release(&view, &PyBuffer_Release);
  const auto first = reinterpret_cast<uintptr_t>(view.buf);
  if (view.shape == nullptr || view.strides == nullptr) return {first, first + static_cast<uintptr_t>(view.len)};
  int64_t before = 0, after = view.itemsize;
  for (int i = 0; i < view.ndim; ++i) {
    if (view.shape[i] == 0) return {};
    (view.strides[i] < 0 ? before : after) += (view.shape[i] - 1) * view.strides[i];
  }
  return {first + before, first + after};
}

std::weak_ptr<const void> lifetime_if_any(py::handle object) {
  if (Py_TYPE(object.ptr())->tp_weaklistoffset != 0) return lifetime_of(object);
  static auto* const kept = new std::unordered_set<PyObject*>;  // so that no other object gets the address of one
  static const auto for_ever = std::make_shared<const char>();
  if (kept->insert(object.ptr()).second) object.inc_ref();
  return for_ever;
}

}  // namespace diptych::python
