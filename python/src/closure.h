// What a Python function reads besides its arguments: guarded, as a captured graph stands for one state of it.
#pragma once
#include "held.h"
#include "value_reader.h"

namespace diptych::python {

/// Visits what a callable reads: the cells of its closure, its defaults, the globals that its code names, the object
/// that it is a method of, and so on for the functions and methods that it names; and what other objects hold. Numbers
/// and strings count by value, tensors by identity, modules and objects by what they hold: see Note [What is guarded].
template <class Visitor>
class ClosureReader {
 public:
  explicit ClosureReader(Visitor& visitor, Met& met, int depth = 0)
      : visitor_(visitor), met_(met), depth_(depth), reader_(visitor, met, Inside::kClosure, depth) {}

  /// The function that is captured, of whosever module.
  void visit(py::handle callable, const Path& path) {
    if (PyFunction_Check(callable.ptr())) return function(callable.ptr(), path);
    reader_.attribute(callable, path);
  }
  void module(py::handle object, const Path& path) { reader_.visit(object, path); }

  /// A module's or an object's method, if it is the user's.
  void method(py::handle object, const char* name, const Path& path) {
    const py::str key(name);
    method_of(Py_TYPE(object.ptr()), key.ptr(), path);
  }

  void object(py::handle value, const Path& path) {
    PyObject* const object = value.ptr();
    if (PyObject* const own = users_function(object)) function(own, path);
    if (PyFunction_Check(object)) return is_of_library(object) ? known(path, value) : void();
    if (PyMethod_Check(object)) {
      reader_.attribute(PyMethod_GET_SELF(object), Path(path, "self"));
      return method_function(PyMethod_GET_FUNCTION(object), Py_TYPE(PyMethod_GET_SELF(object)), path);
    }
    switch (holds(value)) {
      case Holds::kNothing:
        return known(path, value);
      case Holds::kClass:
        known(path, value);
        return is_class_of_library(value) ? void() : names_of_class(value, path);
      case Holds::kElements:
        visitor_.structure(path, Structure::kSequence, PySet_Size(object));
        for (const py::handle element : value) reader_.attribute(element, Path(path, "element"));
        return;
      case Holds::kArguments:
        for (const char* part : {"func", "args", "keywords"}) reader_.attribute(value.attr(part), Path(path, part));
        return;
      case Holds::kAttributes:
        return attributes(value, path);
    }
  }

 private:
  static constexpr int kMostDepth = 2;

  void attributes(py::handle value, const Path& path) {
    reader_.type_of(value, path);
    if (depth_ == kMostDepth) return;
    if (!met_.enter(value.ptr())) return identity(path, value);
    method(value, "__call__", path);
    const py::dict held = attributes_of(value);
    visitor_.structure(path, Structure::kStruct, static_cast<int64_t>(held.size()));
    Reader<Visitor> inside(visitor_, met_, Inside::kClosure, depth_ + 1);
    for (const auto& [name, attribute] : held) {
      if (!is_key(name)) continue;  // no attribute: of those that hold others besides
      with_key(name, [&, &attribute = attribute](auto key) { inside.attribute(attribute, Path(path, key)); });
    }
  }
  void identity(const Path& path, py::handle object) {
    visitor_.identity(path, object.ptr(), [&] { return lifetime_if_any(object); });
  }

  // One that does not change; layers of a stack may share it.
  void known(const Path& path, py::handle object) {
    identity(path, object);
    visitor_.constant(path, reinterpret_cast<int64_t>(object.ptr()));
  }

  // `self`: the class of the first argument, where it is known.
  void function(PyObject* function, const Path& path, PyTypeObject* self = nullptr) {
    // Which of those that were read it is counts here as well; its address may be another's with each call.
    if (!met_.enter(function)) return visitor_.constant(path, met_.places.at(function));
    PyObject* const code = PyFunction_GetCode(function);
    known(path, code);
    if (PyObject* const defaults = PyFunction_GetDefaults(function)) {
      reader_.attribute(defaults, Path(path, "defaults"));
    }
    if (PyObject* const defaults = PyFunction_GetKwDefaults(function)) {
      reader_.attribute(defaults, Path(path, "defaults"));
    }
    if (PyObject* const members = reinterpret_cast<PyFunctionObject*>(function)->func_dict) {
      reader_.attribute(members, Path(path, "attributes"));
    }
    if (PyObject* const closure = PyFunction_GetClosure(function)) cells(code, closure, path);
    names(code, PyFunction_GetGlobals(function), self, path);
  }
  void cells(py::handle code, PyObject* closure, const Path& path) {
    const auto names = py::reinterpret_borrow<py::tuple>(code.attr("co_freevars"));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject* const content = PyCell_GET(PyTuple_GET_ITEM(closure, i));
      if (content == nullptr) continue;
      with_key(names[i], [&](auto name) { reader_.attribute(content, Path(path, name)); });
    }
  }
  // What the code names, and the code inside it: comprehensions, lambdas, functions.
  void names(PyObject* code, PyObject* globals, PyTypeObject* self, const Path& path) {
    const auto* const parts = reinterpret_cast<PyCodeObject*>(code);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts->co_names); ++i) {
      PyObject* const name = PyTuple_GET_ITEM(parts->co_names, i);
      if (PyObject* const value = PyDict_GetItem(globals, name)) {
        if (!PyModule_Check(value)) with_key(name, [&](auto key) { reader_.attribute(value, Path(path, key)); });
      } else if (self != nullptr) {
        with_key(name, [&](auto key) { method_of(self, name, Path(path, key)); });
      }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts->co_consts); ++i) {
      PyObject* const constant = PyTuple_GET_ITEM(parts->co_consts, i);
      if (PyCode_Check(constant)) names(constant, globals, self, path);
    }
  }
  void names_of_class(py::handle type, const Path& path) {
    for (const auto& [name, value] : py::dict(type.attr("__dict__"))) {
      if (!is_plain(value) || name.template cast<std::string_view>().starts_with("__")) continue;
      with_key(name, [&, &value = value](auto key) { reader_.attribute(value, Path(path, key)); });
    }
  }
  static bool is_plain(py::handle value) {
    const Kind kind = kind_of(value);
    return kind == Kind::kConstant || kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kDict;
  }
  void method_of(PyTypeObject* type, PyObject* name, const Path& path) {
    PyObject* const found = _PyType_Lookup(type, name);
    if (found == nullptr) return;
    if (is_plain(found)) return reader_.attribute(found, path);
    method_function(method_behind(found).ptr(), type, path);
  }
  void method_function(PyObject* found, PyTypeObject* self, const Path& path) {
    if (PyObject* const own = users_function(found)) function(own, path, self);
  }

  Visitor& visitor_;
  Met& met_;
  int depth_;
  Reader<Visitor> reader_;
};

}  // namespace diptych::python
