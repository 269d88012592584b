// Python objects as trees: the Tree of a Value visits what it holds as that of a C++ value visits its fields. Dicts are
// taken in the order of their sorted keys, dataclasses and named tuples in that of their declaration, modules by their
// named parameters, then their named buffers.
#pragma once
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <string>

#include "diptych/base/error.h"
#include "diptych/tree/tree.h"
#include "handle.h"
#include "kinds.h"

namespace diptych::python {

/// Any Python object as an argument or a result. Threads: any; visiting takes the GIL.
struct Value {
  Handle handle;
  Value() = default;
  explicit Value(py::object object) : handle(std::move(object)) {}
};

/// A visitor may keep the address of what it is told.
inline const at::Tensor kUndefined;

/// Calls `take` with a constant as the C++ value that it is.
template <class Take>
void with_constant(py::handle object, const Take& take);

[[noreturn]] void refuse_subclass(py::handle object, const Path& path);

/// The keys of a dict, sorted; all strings, or all integers. Errors: UserError for other keys.
py::list sorted_keys(const py::dict& dict, const Path& path);

/// Calls `visit` with a key as visitors see it.
template <class Visit>
void with_key(py::handle key, const Visit& visit) {
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (text == nullptr) throw py::error_already_set();
    visit(std::string_view(text, static_cast<size_t>(size)));
  } else {
    visit(key.cast<int64_t>());
  }
}

/// What tensors inside an object are to a visitor.
enum class Inside : uint8_t {
  kArgument,  ///< leaves
  kModule,    ///< parts of a module, which nobody replaces
  kClosure,   ///< known by identity; a capture lifts them as free variables
  kHeld,      ///< as in a closure, for an object that one holds: objects inside it do not count
};

/// The objects that are being read, innermost first: one that holds itself is not read again.
struct Open {
  PyObject* object;
  const Open* outer;
};

/// Reads an object.
template <class Visitor>
class Reader {
 public:
  explicit Reader(Visitor& visitor, Inside inside = Inside::kArgument, const Open* open = nullptr)
      : visitor_(visitor), inside_(inside), open_(open) {}

  void visit(py::handle object, const Path& path) {
    switch (kind_of(object)) {
      case Kind::kTensor:
        return tensor(THPVariable_Unpack(object.ptr()), path);
      case Kind::kSubclass:
        return refuse_subclass(object, path);
      case Kind::kAbsent:
        return tensor(kUndefined, path);
      case Kind::kConstant:
        return with_constant(object, [&](const auto& value) { visitor_.constant(path, value); });
      case Kind::kList:
        return sequence(py::reinterpret_borrow<py::list>(object), Structure::kSequence, path);
      case Kind::kTuple:
        return sequence(py::reinterpret_borrow<py::tuple>(object), Structure::kTuple, path);
      case Kind::kNamedTuple:
        return named_tuple(object, path);
      case Kind::kDict:
        return dict(py::reinterpret_borrow<py::dict>(object), path);
      case Kind::kDataclass:
        return dataclass(object, path);
      case Kind::kModule:
        return module(object, path);
      case Kind::kRegistered:
        return registered(object, path);
      case Kind::kObject:
        return object_itself(object, path);
    }
  }

  /// Reads what a module, a closure or an object holds: values inside it count, objects inside those do not.
  void attribute(py::handle value, const Path& path) {
    const Kind kind = kind_of(value);
    if (kind == Kind::kTensor || kind == Kind::kConstant || kind == Kind::kAbsent) return visit(value, path);
    for (const Open* open = open_; open != nullptr; open = open->outer) {
      if (open->object == value.ptr()) return identity(path, value.ptr(), {});
    }
    const Open open{value.ptr(), open_};
    Reader(visitor_, inside_, &open).holder(value, kind, path);
  }

 private:
  // What is read is on the list of open objects.
  void holder(py::handle value, Kind kind, const Path& path) {
    switch (kind) {
      case Kind::kDict:
        return entries_in_order(py::reinterpret_borrow<py::dict>(value), path);
      case Kind::kList:
        return elements(py::reinterpret_borrow<py::list>(value), path);
      case Kind::kTuple:
        return elements(py::reinterpret_borrow<py::tuple>(value), path);
      case Kind::kSubclass:
        return identity(path, value.ptr(), {});
      // A module inside a module is visited where it is registered.
      case Kind::kModule:
        return inside_ == Inside::kModule ? void() : module(value, path);
      case Kind::kRegistered:
        return;
      case Kind::kDataclass:
      case Kind::kObject:
        // A module's forward may stand among its attributes.
        if (inside_ != Inside::kArgument && PyCallable_Check(value.ptr()) != 0) identity(path, value.ptr(), {});
        return inside_ == Inside::kClosure ? members(value, path) : void();
      default:
        return visit(value, path);
    }
  }
  void tensor(const at::Tensor& tensor, const Path& path) {
    if (inside_ == Inside::kArgument) {
      // One that replaces tensors is given modules alone.
      if constexpr (!diptych::detail::replaces_tensors<Visitor>()) visitor_.tensor(path, tensor);
      return;
    }
    if (inside_ == Inside::kModule) return visitor_.module_tensor(path, tensor);
    identity(path, tensor.unsafeGetTensorImpl(), {});
  }
  void identity(const Path& path, const void* address, std::weak_ptr<const void> lifetime) {
    visitor_.identity(path, address, [&] { return std::move(lifetime); });
  }
  void type_of(py::handle object, const Path& path) { identity(path, Py_TYPE(object.ptr()), {}); }

  template <class Sequence>
  void sequence(const Sequence& elements, Structure structure, const Path& path) {
    visitor_.structure(path, structure, static_cast<int64_t>(elements.size()));
    int64_t index = 0;
    for (const py::handle element : elements) visit(element, Path(path, index++));
  }
  template <class Names>
  void attributes(py::handle object, const Names& names, const Path& path) {
    type_of(object, path);
    visitor_.structure(path, Structure::kStruct, static_cast<int64_t>(names.size()));
    for (const py::handle name : names) {
      with_key(name, [&](auto key) { visit(object.attr(name), Path(path, key)); });
    }
  }
  void named_tuple(py::handle object, const Path& path) { attributes(object, py::tuple(object.attr("_fields")), path); }
  void dataclass(py::handle object, const Path& path) { attributes(object, field_names(object), path); }
  void dict(const py::dict& dict, const Path& path) {
    const py::list keys = sorted_keys(dict, path);
    visitor_.structure(path, Structure::kMap, static_cast<int64_t>(keys.size()));
    for (const py::handle key : keys) with_key(key, [&](auto name) { visitor_.key(path, name); });
    for (const py::handle key : keys) with_key(key, [&](auto name) { visit(dict[key], Path(path, name)); });
  }
  void registered(py::handle object, const Path& path) {
    const Parts parts = parts_of(object);
    type_of(object, path);
    Reader<Visitor>(visitor_, inside_).visit(parts.context, Path(path, "context"));
    sequence(parts.children, Structure::kSequence, path);
  }
  void object_itself(py::handle object, const Path& path) {
    if (inside_ == Inside::kArgument) identity(path, object.ptr(), lifetime_of(object));
  }
  template <class Sequence>
  void elements(const Sequence& values, const Path& path) {
    visitor_.structure(path, Structure::kSequence, static_cast<int64_t>(values.size()));
    int64_t index = 0;
    for (const py::handle value : values) attribute(value, Path(path, index++));
  }
  void members(py::handle object, const Path& path) {
    if (PyObject** const members = _PyObject_GetDictPtr(object.ptr()); members != nullptr && *members != nullptr) {
      Reader(visitor_, Inside::kHeld, open_).entries_in_order(py::reinterpret_borrow<py::dict>(*members), path);
    }
  }

  void module(py::handle object, const Path& path) {
    module_facts(object, path);
    const Inside tensors = inside_of_module();
    module_tensors(object, "_parameters", tensors, path);
    module_tensors(object, "_buffers", tensors, path);
  }
  Inside inside_of_module() const { return inside_ == Inside::kArgument ? Inside::kModule : inside_; }
  // Its own identity, and all that its forward may read without going through a tensor: attributes and hooks.
  void module_facts(py::handle object, const Path& path) {
    identity(path, object.ptr(), lifetime_of(object));
    const py::dict members = object.attr("__dict__");
    Reader inside(visitor_, inside_of_module(), open_);
    for (const auto& [name, value] : members) {
      if (is_registry(name)) continue;
      with_key(name, [&, &value = value](auto key) { inside.attribute(value, Path(path, key)); });
    }
    const py::dict children = members["_modules"];
    visitor_.structure(path, Structure::kChildren, static_cast<int64_t>(children.size()));
    for (const auto& [name, child] : children) {
      if (child.is_none()) continue;
      with_key(name, [&, &child = child](auto key) { module_facts(child, Path(path, key)); });
    }
  }
  void entries_in_order(const py::dict& dict, const Path& path) {
    visitor_.structure(path, Structure::kMap, static_cast<int64_t>(dict.size()));
    for (const auto& [key, value] : dict) {
      if (!PyUnicode_Check(key.ptr()) && !PyLong_CheckExact(key.ptr())) continue;
      with_key(key, [&, &value = value](auto name) {
        visitor_.key(path, name);
        attribute(value, Path(path, name));
      });
    }
  }
  static bool is_registry(py::handle name) {
    const auto text = name.cast<std::string_view>();
    return text == "_parameters" || text == "_buffers" || text == "_modules";
  }
  void module_tensors(py::handle object, const char* registry, Inside inside, const Path& path) {
    const py::dict members = object.attr("__dict__");
    Reader reader(visitor_, inside);
    const py::dict tensors = members[registry];
    for (const auto& [name, tensor] : tensors) {
      if (tensor.is_none()) continue;
      with_key(name, [&, &tensor = tensor](auto key) { reader.visit(tensor, Path(path, key)); });
    }
    const py::dict children = members["_modules"];
    for (const auto& [name, child] : children) {
      if (child.is_none()) continue;
      with_key(name, [&, &child = child](auto key) { module_tensors(child, registry, inside, Path(path, key)); });
    }
  }

  Visitor& visitor_;
  Inside inside_;
  const Open* open_;
};

/// Makes an object anew, with its tensors replaced by what the visitor puts in their place. Modules stay.
template <class Visitor>
class Rebuilder {
 public:
  explicit Rebuilder(Visitor& visitor) : visitor_(visitor) {}

  py::object rebuild(py::handle object, const Path& path) {
    switch (kind_of(object)) {
      case Kind::kTensor:
        return tensor(THPVariable_Unpack(object.ptr()), path);
      case Kind::kSubclass:
        return refuse_subclass(object, path), py::object();
      case Kind::kAbsent:
        return tensor(at::Tensor(), path);
      case Kind::kList:
        return elements(py::reinterpret_borrow<py::list>(object), path);
      case Kind::kTuple:
        return tuple(object, path);
      case Kind::kNamedTuple:
        return named_tuple(object, path);
      case Kind::kDict:
        return dict(py::reinterpret_borrow<py::dict>(object), path);
      case Kind::kDataclass:
        return dataclass(object, path);
      case Kind::kRegistered: {
        const Parts parts = parts_of(object);
        return from_parts(py::type::of(object), elements(parts.children, path), parts.context);
      }
      case Kind::kModule:
        Reader<Visitor>(visitor_).visit(object, path);
        [[fallthrough]];
      default:
        return py::reinterpret_borrow<py::object>(object);
    }
  }

 private:
  py::object tensor(at::Tensor tensor, const Path& path) {
    visitor_.tensor(path, tensor);
    if (!tensor.defined()) return py::reinterpret_borrow<py::object>(absent_tensor());
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  }
  template <class Sequence>
  py::list elements(const Sequence& given, const Path& path) {
    py::list made(given.size());
    for (size_t i = 0; i < given.size(); ++i) made[i] = rebuild(given[i], Path(path, static_cast<int64_t>(i)));
    return made;
  }
  py::object tuple(py::handle object, const Path& path) {
    py::tuple made = elements(py::reinterpret_borrow<py::tuple>(object), path);
    return PyTuple_CheckExact(object.ptr()) ? made : py::type::of(object)(made);  // torch.Size, for one
  }
  py::object named_tuple(py::handle object, const Path& path) {
    py::list made;
    for (const py::handle name : py::tuple(object.attr("_fields"))) {
      with_key(name, [&](auto key) { made.append(rebuild(object.attr(name), Path(path, key))); });
    }
    return py::type::of(object).attr("_make")(made);
  }
  py::object dict(const py::dict& given, const Path& path) {
    const py::object made = given.attr("copy")();
    for (const py::handle key : sorted_keys(given, path)) {
      with_key(key, [&](auto name) { made[key] = rebuild(given[key], Path(path, name)); });
    }
    return made;
  }
  // Past its constructor, which may have conditions of its own, and past a frozen class's refusal.
  py::object dataclass(py::handle object, const Path& path) {
    const py::object made = py::module_::import("copy").attr("copy")(object);
    const py::object set = py::module_::import("builtins").attr("object").attr("__setattr__");
    for (const py::handle name : field_names(object)) {
      with_key(name, [&](auto key) { set(made, name, rebuild(object.attr(name), Path(path, key))); });
    }
    return made;
  }

  Visitor& visitor_;
};

template <class Take>
void with_constant(py::handle object, const Take& take) {
  PyObject* const pointer = object.ptr();
  if (pointer == Py_None) return take(nullptr);
  if (PyBool_Check(pointer)) return take(pointer == Py_True);
  if (PyLong_Check(pointer)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(pointer, &overflow);
    return overflow == 0 ? take(static_cast<int64_t>(number)) : take("int " + py::str(object).cast<std::string>());
  }
  if (PyFloat_Check(pointer)) return take(PyFloat_AS_DOUBLE(pointer));
  if (PyComplex_Check(pointer)) return take(object.cast<std::complex<double>>());
  if (PyUnicode_Check(pointer)) return with_key(object, take);
  if (is_known_by_its_text(pointer)) return take(py::repr(object).cast<std::string>());
  if (THPDtype_Check(pointer)) return take(reinterpret_cast<THPDtype*>(pointer)->scalar_type);
  if (THPDevice_Check(pointer)) return take(reinterpret_cast<THPDevice*>(pointer)->device);
  if (THPLayout_Check(pointer)) return take(reinterpret_cast<THPLayout*>(pointer)->layout);
  take(reinterpret_cast<THPMemoryFormat*>(pointer)->memory_format);
}

}  // namespace diptych::python

namespace diptych {

template <>
struct Tree<python::Value> {
  template <class Object, class Visitor>
  static void visit(Object& value, const Path& path, Visitor& visitor) {
    const pybind11::gil_scoped_acquire gil;
    if constexpr (!std::is_const_v<Object> && detail::replaces_tensors<Visitor>()) {
      value = python::Value(python::Rebuilder<Visitor>(visitor).rebuild(value.handle.get(), path));
    } else {
      python::Reader<Visitor>(visitor).visit(value.handle.get(), path);
    }
  }
};

}  // namespace diptych
