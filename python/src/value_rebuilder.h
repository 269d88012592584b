// Rebuilds Python objects with other tensors in them.
#pragma once
#include "guards/closure.h"

namespace diptych::python {

/// Rebuilds an object with its tensors replaced by what the visitor puts in their place. Modules are kept.
template <class Visitor>
class Rebuilder {
 public:
  /// `is_argument`: whether the object is an argument of a captured function; stand-ins then get the class and the
  /// attributes of the tensors that they replace.
  /// `takes_carriers`: whether it is a result, whose tensors get the classes that they have in eager.
  explicit Rebuilder(Visitor& visitor, bool is_argument = false, bool takes_carriers = false)
      : visitor_(visitor), is_argument_(is_argument), takes_carriers_(takes_carriers) {}

  py::object rebuild(py::handle object, const Path& path) {
    const Nesting nesting(depth_, path);
    switch (kind_of(object)) {
      case Kind::kTensor:
      case Kind::kCarrier:
      case Kind::kSubclass:
        return dressed(tensor(THPVariable_Unpack(object.ptr()), path), object);
      case Kind::kAbsent:
        return of_class(tensor(at::Tensor(), path), object.attr("kind"));
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
        read(object, path);
        [[fallthrough]];
      default:
        return closed_number(object);
    }
  }

 private:
  void read(py::handle object, const Path& path) {
    Visited met;
    Reader<Visitor>(visitor_, met).visit(object, path);
  }
  static py::object copied(py::handle object) { return py::module_::import("copy").attr("copy")(object); }
  py::object tensor(at::Tensor tensor, const Path& path) {
    if constexpr (requires { visitor_.replacement(); }) return visitor_.replacement();
    visitor_.tensor(path, tensor);
    if (!tensor.defined()) return py::reinterpret_borrow<py::object>(absent_tensor());
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  }
  py::object dressed(py::object made, py::handle object) const {
    const bool is_carrier = kind_of(object) == Kind::kCarrier;
    if (takes_carriers_ && is_carrier) return of_class(std::move(made), py::type::of(object));
    const bool are_plain = (kind_of(object) == Kind::kTensor || is_carrier) && kind_of(made) == Kind::kTensor;
    if (!is_argument_ || !are_plain || made.is(object)) return made;
    if (!py::type::of(made).is(py::type::of(object))) made.attr("__class__") = py::type::of(object);
    if (const py::object attributes = attributes_of_tensor(object)) made.attr("__dict__").attr("update")(attributes);
    return made;
  }
  // Gives a result the class that it has in eager, if it is a new tensor; or leaves word of it.
  py::object of_class(py::object made, py::handle type) const {
    if (!takes_carriers_ || type.is_none()) return made;
    if (made.is(absent_tensor())) return absent_tensor_of(type);
    if (kind_of(made) == Kind::kTensor) made.attr("__class__") = type;
    return made;
  }
  template <class Sequence>
  py::list elements(const Sequence& given, const Path& path) {
    py::list made(given.size());
    for (size_t i = 0; i < given.size(); ++i) made[i] = rebuild(given[i], Path(path, static_cast<int64_t>(i)));
    return made;
  }
  py::object tuple(py::handle object, const Path& path) {
    py::tuple made = elements(py::reinterpret_borrow<py::tuple>(object), path);
    return PyTuple_CheckExact(object.ptr()) ? made : py::type::of(object)(made);  // such as torch.Size
  }
  py::object named_tuple(py::handle object, const Path& path) {
    py::list made;
    for (const py::handle name : py::tuple(object.attr("_fields"))) {
      with_key(name, [&](auto key) { made.append(rebuild(object.attr(name), Path(path, key))); });
    }
    return py::type::of(object).attr("_make")(made);
  }
  py::object dict(const py::dict& given, const Path& path) {
    const py::object made = PyDict_CheckExact(given.ptr()) ? given.attr("copy")() : copied(given);
    for (const py::handle key : sorted_keys(given, path)) {
      with_key(key, [&](auto name) { made[key] = rebuild(given[key], Path(path, name)); });
    }
    return made;
  }
  // Bypasses the constructor, which may have conditions of its own, and the refusal of a frozen class.
  py::object dataclass(py::handle object, const Path& path) {
    const py::object made = copied(object);
    const py::object set = py::module_::import("builtins").attr("object").attr("__setattr__");
    for (const py::handle name : field_names(object)) {
      with_key(name, [&](auto key) { set(made, name, rebuild(object.attr(name), Path(path, key))); });
    }
    return made;
  }

  Visitor& visitor_;
  bool is_argument_;
  bool takes_carriers_;
  int depth_ = 0;
};

/// Puts objects that are no tensors in the places of tensors, one after the other.
struct ObjectFiller : LeafVisitor {
  static constexpr bool kReplacesTensors = true;
  explicit ObjectFiller(std::vector<py::object> objects) : objects(std::move(objects)) {}
  std::vector<py::object> objects;
  size_t next = 0;
  void module_tensor(const Path&, const at::Tensor&) { ++next; }
  py::object replacement() { return objects.at(next++); }
};

}  // namespace diptych::python
