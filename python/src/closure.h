// What a Python function reads besides its arguments: guarded, as a captured graph stands for one state of it.
#pragma once
#include <unordered_set>

#include "value.h"

namespace diptych::python {

/// Visits what a callable reads directly: the cells of its closure, its defaults, the globals that its code names, the
/// object that it is a method of, and so on for functions of the user's that are found there. Numbers and strings count
/// by value, tensors and modules by identity; other objects by what their attributes hold. What is reached otherwise (a
/// global of a library, an object inside an object) is taken for constant.
template <class Visitor>
class ClosureReader {
 public:
  explicit ClosureReader(Visitor& visitor) : visitor_(visitor), reader_(visitor, Inside::kClosure) {}

  void visit(py::handle callable, const Path& path) {
    PyObject* const object = callable.ptr();
    if (PyMethod_Check(object)) {
      read(PyMethod_GET_SELF(object), Path(path, "self"));
      return visit(PyMethod_GET_FUNCTION(object), path);
    }
    if (PyFunction_Check(object)) return function(object, path);
    read(callable, path);
  }

 private:
  void function(PyObject* object, const Path& path) {
    if (!visited_.insert(object).second) return;
    PyObject* const code = PyFunction_GetCode(object);
    visitor_.identity(path, code, [&] { return lifetime_of(code); });
    if (PyObject* const defaults = PyFunction_GetDefaults(object)) read(defaults, Path(path, "defaults"));
    if (PyObject* const defaults = PyFunction_GetKwDefaults(object)) read(defaults, Path(path, "defaults"));
    if (PyObject* const closure = PyFunction_GetClosure(object)) cells(object, closure, path);
    globals(object, path);
  }
  void cells(PyObject* function, PyObject* closure, const Path& path) {
    const auto names = py::reinterpret_borrow<py::tuple>(py::handle(function).attr("__code__").attr("co_freevars"));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject* const content = PyCell_GET(PyTuple_GET_ITEM(closure, i));
      if (content == nullptr) continue;
      with_key(names[i], [&](auto name) { read(content, Path(path, name)); });
    }
  }
  void globals(PyObject* function, const Path& path) {
    PyObject* const known = PyFunction_GetGlobals(function);
    const auto names = py::reinterpret_borrow<py::tuple>(py::handle(function).attr("__code__").attr("co_names"));
    for (const py::handle name : names) {
      PyObject* const value = PyDict_GetItem(known, name.ptr());
      if (value == nullptr || PyModule_Check(value) || PyType_Check(value)) continue;
      // Functions of other modules are their authors' affair.
      if (PyFunction_Check(value) && PyFunction_GetGlobals(value) != known) continue;
      with_key(name, [&](auto key) { read(value, Path(path, key)); });
    }
  }
  void read(py::handle value, const Path& path) {
    PyObject* const object = value.ptr();
    if (PyMethod_Check(object) || PyFunction_Check(object)) return visit(value, path);
    reader_.attribute(value, path);
  }

  Visitor& visitor_;
  Reader<Visitor> reader_;
  std::unordered_set<PyObject*> visited_;
};

}  // namespace diptych::python
