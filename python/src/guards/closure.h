// What a Python function reads besides its arguments. It is guarded, since a captured graph is valid for one state of
// it.
#pragma once
#include "guards/attributes.h"
#include "guards/reader.h"
#include "modes.h"

namespace diptych::python {

/// Returns the object that a weak reference or a proxy stands for; None if it is gone.
inline py::object referent(PyObject* reference) {
#if PY_VERSION_HEX < 0x030D0000
  return py::reinterpret_borrow<py::object>(PyWeakref_GetObject(reference));
#else
  PyObject* found = nullptr;
  if (PyWeakref_GetRef(reference, &found) < 0) throw py::error_already_set();
  return found == nullptr ? py::object(py::none()) : py::reinterpret_steal<py::object>(found);
#endif
}

/// Visits what a callable reads: the cells of its closure, its defaults, the globals that its code names, the object
/// that it is a method of, and so on for the functions and methods that it names; and what other objects hold. Numbers
/// and strings count by value, tensors by identity, modules and objects by what they hold: see Note [What is guarded].
template <class Visitor>
class ClosureReader {
 public:
  explicit ClosureReader(Visitor& visitor, Visited& met, int depth = 0)
      : visitor_(visitor), met_(met), depth_(depth), reader_(visitor, met, TensorRole::kClosure, depth) {}

  /// Visits the function that is captured, whichever module it is from.
  void visit(py::handle callable, const Path& path) {
    if (PyFunction_Check(callable.ptr())) return function(callable.ptr(), path);
    reader_.attribute(callable, path);
  }
  void attributes_of_tensor(const py::dict& held, const Path& path) { reader_.attribute(held, path); }
  void module(py::handle object, const Path& path) { reader_.visit(object, path); }

  /// Visits the hooks of all modules: any module that the function calls obeys them, but nothing that it holds leads to
  /// them.
  void hooks(const Path& path) {
    for (const auto& [name, held] : hooks_of_all_modules()) {
      reader_.attribute(held, Path(path, std::string_view(name)));
    }
  }

  /// Visits a method of a module or an object, if the method is the user's.
  void method(py::handle object, const char* name, const Path& path) {
    const py::str key(name);
    method_of(Py_TYPE(object.ptr()), key.ptr(), path);
  }

  void object(py::handle value, const Path& path) {
    PyObject* const object = value.ptr();
    PyObject* const own = users_function(object);
    if (own != nullptr) function(own, path);
    if (PyFunction_Check(object)) return is_of_library(object) ? function_of_library(value, path) : void();
    if (const py::object bound = bound_to(value)) return method_of_builtin(value, bound, path);
    if (PyMethod_Check(object)) {
      reader_.attribute(PyMethod_GET_SELF(object), Path(path, "self"));
      PyObject* const own = users_function(PyMethod_GET_FUNCTION(object));
      return own != nullptr ? function(own, path) : void();
    }
    switch (holds(value)) {
      case AttributeSource::kNothing:
        class_of(value, Path(path, "class"));
        // Other objects of the standard library, such as a logger, lead to all objects of their kind.
        if (own != nullptr || has_users_base(Py_TYPE(object))) named_attributes(value, path);
        return known(path, value);
      case AttributeSource::kClass:
        known(path, value);
        return is_class_of_library(value) ? void() : class_that_is_named(value, path);
      case AttributeSource::kElements:
        visitor_.structure(path, Structure::kSequence, PySet_Size(object));
        for (const py::handle element : value) reader_.attribute(element, Path(path, "element"));
        return named_attributes(value, path);
      case AttributeSource::kArguments:
        for (const char* part : {"func", "args", "keywords"}) reader_.attribute(value.attr(part), Path(path, part));
        return named_attributes(value, path);
      case AttributeSource::kMemory:
        known(path, value);
        named_attributes(value, path);
        if (const auto hash = hash_of_memory(value)) return visitor_.constant(path, static_cast<int64_t>(*hash));
        return reader_.attribute(value.attr("tolist")(), path);
      case AttributeSource::kMapping:
        return reader_.attribute(py::dict(py::reinterpret_borrow<py::object>(value)), path);
      case AttributeSource::kView:
        return reader_.attribute(py::list(py::reinterpret_borrow<py::object>(value)), path);
      case AttributeSource::kReference:
        return reader_.attribute(referent(object), path);
      case AttributeSource::kAttributes:
        return attributes(value, path);
    }
  }

  /// Visits what an object has from its class: attributes that code names (properties, methods, and values of the class
  /// or a base), and the methods that Python calls by itself.
  void class_of(py::handle object, const Path& path) { class_members(Py_TYPE(object.ptr()), path); }

  /// Visits the attributes that an object has by name, if its class makes it hold something else in the first place.
  void named_attributes(py::handle object, const Path& path) {
    const py::dict held = attributes_beside(object);
    for (const auto& [name, attribute] : held) {
      if (!PyUnicode_Check(name.ptr()) || name.template cast<std::string_view>().starts_with("_")) continue;
      with_key(name, [&, &attribute = attribute](auto key) { reader_.attribute(attribute, Path(path, key)); });
    }
  }

 private:
  static constexpr int kMostDepth = 2;

  void attributes(py::handle value, const Path& path) {
    reader_.type_of(value, path);
    class_of(value, Path(path, "class"));
    if (depth_ == kMostDepth) return;
    if (!met_.enter(value.ptr(), depth_)) return visitor_.constant(path, met_.places.at(value.ptr()));
    if (PyList_Check(value.ptr())) reader_.elements_of(value, path);
    if (is_deque(value)) reader_.elements_of(py::list(py::reinterpret_borrow<py::object>(value)), path);
    const py::dict held = attributes_of(value);
    visitor_.structure(path, Structure::kStruct, static_cast<int64_t>(held.size()));
    Reader<Visitor> inside(visitor_, met_, TensorRole::kClosure, depth_ + 1);
    for (const auto& [name, attribute] : held) {
      if (!is_key(name)) continue;  // not an attribute, though the dict may hold such keys, too
      with_key(name, [&, &attribute = attribute](auto key) { inside.attribute(attribute, Path(path, key)); });
    }
  }
  void identity(const Path& path, py::handle object) {
    visitor_.identity(path, object.ptr(), [&] { return lifetime_if_any(object); });
  }

  void function_of_library(py::handle value, const Path& path) {
    known(path, value);
    named_attributes(value, path);  // the registry of functools.singledispatch, the rules of custom_vjp
  }
  // Visits a builtin method, which is a new object at each access, so that what it is bound to counts.
  void method_of_builtin(py::handle method, const py::object& bound, const Path& path) {
    visitor_.constant(path, std::string_view(Py_TYPE(method.ptr())->tp_name));
    reader_.attribute(method.attr("__name__"), Path(path, "name"));
    reader_.attribute(bound, Path(path, "self"));
  }

  // Visits an object that does not change, and that layers of a stack may share.
  void known(const Path& path, py::handle object) {
    identity(path, object);
    visitor_.constant(path, reinterpret_cast<int64_t>(object.ptr()));
  }

  void function(PyObject* function, const Path& path) {
    // Which earlier function this is counts as well. It is told by number, since the address may differ in each call.
    if (!met_.enter(function)) return visitor_.constant(path, met_.places.at(function));
    PyObject* const code = PyFunction_GetCode(function);
    known(path, code);
    if (PyObject* const defaults = PyFunction_GetDefaults(function)) {
      reader_.attribute(defaults, Path(path, "defaults"));
    }
    if (PyObject* const defaults = PyFunction_GetKwDefaults(function)) {
      reader_.attribute(defaults, Path(path, "defaults"));
    }
    PyObject* const members = reinterpret_cast<PyFunctionObject*>(function)->func_dict;
    if (members != nullptr && PyDict_Size(members) > 0) {  // asking Python for it would make an empty one
      reader_.attribute(members, Path(path, "attributes"));
    }
    if (PyObject* const closure = PyFunction_GetClosure(function)) cells(code, closure, path);
    names(code, PyFunction_GetGlobals(function), path);
  }
  void cells(py::handle code, PyObject* closure, const Path& path) {
    const auto names = py::reinterpret_borrow<py::tuple>(code.attr("co_freevars"));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(closure); ++i) {
      PyObject* const content = PyCell_GET(PyTuple_GET_ITEM(closure, i));
      if (content == nullptr) continue;
      with_key(names[i], [&](auto name) { variable(content, names_of_code(code.ptr()), Path(path, name)); });
    }
  }
  // Visits what is named by the code, and by the code inside it: comprehensions, lambdas, functions.
  void names(PyObject* code, PyObject* globals, const Path& path) {
    const CodeNames& parts = names_of_code(code);
    for (PyObject* const name : parts.variables) {
      PyObject* value = PyDict_GetItem(globals, name);
      if (value == nullptr) value = users_module_called(name);  // which the code may import
      if (value != nullptr) with_key(name, [&](auto key) { variable(value, parts, Path(path, key)); });
    }
    // The code may name attributes of any object that was met.
    met_.codes.push_back(&parts);
    for (size_t i = 0; i < met_.classes.size(); ++i) named(parts, met_.classes[i], path);
  }
  // Visits the value of a variable; of a user's module, only what the code names.
  void variable(PyObject* value, const CodeNames& names, const Path& path, int depth = 0) {
    constexpr int kMostModules = 4;  // levels of modules, which may hold each other
    if (!PyModule_Check(value)) return reader_.attribute(value, path);
    if (depth == kMostModules || !is_users_module(value)) return;
    PyObject* const variables = PyModule_GetDict(value);
    for (PyObject* const name : names.attributes) {
      PyObject* const held = PyDict_GetItem(variables, name);
      if (held == nullptr) continue;
      with_key(name, [&](auto key) { variable(held, names, Path(path, key), depth + 1); });
    }
  }
  void class_members(PyTypeObject* type, const Path& path) {
    if (!has_users_base(type)) return;
    if (std::find(met_.classes.begin(), met_.classes.end(), type) != met_.classes.end()) return;
    met_.classes.push_back(type);
    const auto known = members_of_class(type);
    members(known->special, path);
    for (size_t i = 0; i < met_.codes.size(); ++i) named(*met_.codes[i], type, path);
  }
  void named(const CodeNames& code, PyTypeObject* type, const Path& path) {
    const auto found = members_named(code, type);
    members(*found, path);
  }
  void members(const Members& found, const Path& path) {
    for (const auto& [name, value] : found) {
      with_key(name, [&, &value = value](auto key) { member(value, Path(path, key)); });
    }
  }
  // Visits a class whose objects may be made and used. torch may call any function of a torch.autograd.Function.
  void class_that_is_named(py::handle value, const Path& path) {
    auto* const type = reinterpret_cast<PyTypeObject*>(value.ptr());
    for (const auto& [name, held] : py::reinterpret_borrow<py::dict>(type->tp_dict)) {
      if (!is_plain(held) || name.template cast<std::string_view>().starts_with("__")) continue;
      with_key(name, [&, &held = held](auto key) { reader_.attribute(held, Path(path, key)); });
    }
    class_members(type, path);
    class_members(Py_TYPE(value.ptr()), path);
    const auto known = members_of_class(type);
    members(known->is_autograd ? known->functions : known->makers, path);
  }
  static bool is_plain(py::handle value) {
    const Kind kind = kind_of(value);
    return kind == Kind::kConstant || kind == Kind::kList || kind == Kind::kTuple || kind == Kind::kDict;
  }
  void method_of(PyTypeObject* type, PyObject* name, const Path& path) {
    if (PyObject* const found = _PyType_Lookup(type, name)) member(found, path);
  }
  void member(py::handle found, const Path& path) {
    if (is_plain(found)) return reader_.attribute(found, path);
    const py::object behind = method_behind(found);
    if (PyObject* const own = users_function(behind.ptr())) {
      if (own != behind.ptr()) named_attributes(behind, path);
      return function(own, path);
    }
    if (!PyFunction_Check(behind.ptr())) reader_.attribute(behind, path);  // a descriptor, a tensor, an object
  }

  Visitor& visitor_;
  Visited& met_;
  int depth_;
  Reader<Visitor> reader_;
};

}  // namespace diptych::python
