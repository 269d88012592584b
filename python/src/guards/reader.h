// Visits what a Python object holds, as the Tree of a C++ value visits its fields.
#pragma once
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <complex>
#include <string>
#include <unordered_map>
#include <vector>

#include "diptych/base/error.h"
#include "diptych/trace/autograd_facts.h"
#include "diptych/tree/spec.h"
#include "diptych/tree/tree.h"
#include "guards/attributes.h"
#include "guards/classes.h"
#include "guards/keys.h"
#include "guards/visited.h"

namespace diptych::python {

/// The undefined tensor, as an object that stays, since a visitor may keep the address of what it is told.
inline const at::Tensor kUndefined;

/// Refuses a parameter or buffer of a lazy module, which has no sizes before the module's first call. A compiled
/// function runs its function instead, which initializes the module.
class UninitializedMet final : public UserError {
 public:
  explicit UninitializedMet(const std::string& path);
  /// Why the function itself runs.
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

/// Errors: UninitializedMet.
void refuse_uninitialized(py::handle object, const Path& path);

/// Whether a dict's key is one that visitors know.
bool is_key(py::handle key);

/// Returns a text that fully tells a constant that has no other form in C++.
std::string text_of_constant(py::handle object);

/// Calls `take` with a constant as a C++ value.
template <class Take>
void with_constant(py::handle object, const Take& take) {
  if (is_open_number(object)) return with_constant(closed_number(object), take);
  PyObject* const pointer = object.ptr();
  if (pointer == Py_None) return take(nullptr);
  if (PyBool_Check(pointer)) return take(pointer == Py_True);
  if (PyLong_CheckExact(pointer)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(pointer, &overflow);
    return overflow == 0 ? take(static_cast<int64_t>(number)) : take(text_of_constant(object));
  }
  if (PyFloat_CheckExact(pointer)) return take(PyFloat_AS_DOUBLE(pointer));
  if (PyComplex_CheckExact(pointer))
    return take(std::complex<double>(PyComplex_RealAsDouble(pointer), PyComplex_ImagAsDouble(pointer)));
  if (PyUnicode_CheckExact(pointer)) return with_key(object, take);
  if (THPDtype_Check(pointer)) return take(reinterpret_cast<THPDtype*>(pointer)->scalar_type);
  if (THPDevice_Check(pointer)) return take(reinterpret_cast<THPDevice*>(pointer)->device);
  if (THPLayout_Check(pointer)) return take(reinterpret_cast<THPLayout*>(pointer)->layout);
  if (THPMemoryFormat_Check(pointer)) return take(reinterpret_cast<THPMemoryFormat*>(pointer)->memory_format);
  take(text_of_constant(object));
}

/// Returns a hash of the dtype, the layout, the device, the strides and the offset of a tensor, and of whether it is a
/// leaf.
inline uint64_t hash_of_layout(const at::Tensor& tensor, bool is_leaf) {
  const c10::Device device = tensor.device();
  const auto byte = [](auto value) { return uint64_t{static_cast<uint8_t>(value)}; };
  const uint64_t facts = byte(tensor.scalar_type()) | byte(tensor.layout()) << 8 | byte(device.type()) << 16 |
                         byte(device.index()) << 24 | byte(is_leaf) << 32;
  if (tensor.layout() != c10::kStrided) return facts;
  uint64_t hash = diptych::detail::mix(0, facts, static_cast<uint64_t>(tensor.storage_offset()));
  for (const int64_t stride : tensor.strides()) hash = diptych::detail::mix(hash, 0, static_cast<uint64_t>(stride));
  return hash;
}

template <class Visitor>
class ClosureReader;

/// Reads an object.
///
/// Note [What is guarded]: a graph is valid for one state of everything that its function reads without going through a
/// tensor. Arguments are read as trees. What a module, a closure or an object holds is read by value as far as Python's
/// own containers go; the attributes of objects are read as well, and those of the objects that these hold. The classes
/// of all these objects are read as far as code that is read names something in them: attributes of classes and their
/// bases, properties, methods; and the methods that Python calls by itself. Variables of the user's modules are read if
/// code names them. Objects further inside, and the insides of the standard library's objects and of functions of
/// installed libraries, are taken to be constant: reading everything that can be reached would cost more than many a
/// call, and would see changes that the function does not. For what a function reads and nothing leads to, such as a
/// file or the clock, see Note [What a function does on the host].
template <class Visitor>
class Reader {
 public:
  explicit Reader(Visitor& visitor, Visited& met, TensorRole inside = TensorRole::kArgument, int depth = 0,
                  bool takes_carriers = false)
      : visitor_(visitor), met_(met), inside_(inside), depth_(depth), takes_carriers_(takes_carriers) {}

  /// Reads an argument, or a result. `is_guarded`: whether the order of a dict's keys and its class count, too, since
  /// the captured function is given the dict.
  void visit(py::handle object, const Path& path, bool is_guarded = false) {
    is_guarded_ = is_guarded;
    argument(object, path);
  }

  /// Reads what a module, a closure or an object holds.
  void attribute(py::handle value, const Path& path) {
    const Kind kind = kind_of(value);
    if (kind <= Kind::kCarrier || kind == Kind::kConstant || kind == Kind::kAbsent) return argument(value, path);
    const auto open = std::find(met_.open.begin(), met_.open.end(), value.ptr());
    if (open != met_.open.end()) return visitor_.constant(path, static_cast<int64_t>(open - met_.open.begin()));
    const Nesting nesting(met_.depth, path);
    met_.open.push_back(value.ptr());
    held(value, kind, path);
    met_.open.pop_back();
  }

  void elements_of(py::handle list, const Path& path) { elements(py::reinterpret_borrow<py::list>(list), path); }

  /// Visits the class of an object: by name, to be read in the reason of a miss, and by address.
  void type_of(py::handle object, const Path& path) {
    kind_of(object);  // keeps the class alive
    visitor_.constant(path, std::string_view(Py_TYPE(object.ptr())->tp_name));
    visitor_.constant(path, reinterpret_cast<int64_t>(Py_TYPE(object.ptr())));
  }

 private:
  void argument(py::handle object, const Path& path) {
    const Kind kind = kind_of(object);
    if (kind == Kind::kTensor) return tensor(object, path);
    if (kind == Kind::kCarrier) return carrier(object, path);
    if (kind == Kind::kConstant) return constant(object, path);
    const Nesting nesting(met_.depth, path);
    switch (kind) {
      case Kind::kTensor:
      case Kind::kCarrier:
      case Kind::kConstant:
        return;
      case Kind::kSubclass:
        refuse_uninitialized(object, path);
        visitor_.subclass(path, type_name(object));
        return inside_ == TensorRole::kClosure ? identity(path, object) : tensor(object, path);
      case Kind::kAbsent:
        return absent(path);
      case Kind::kList:
        return sequence(py::reinterpret_borrow<py::list>(object), Structure::kSequence, path);
      case Kind::kTuple:
        return sequence(py::reinterpret_borrow<py::tuple>(object), Structure::kTuple, path);
      case Kind::kNamedTuple:
        return attributes(object, py::tuple(object.attr("_fields")), path);
      case Kind::kDict:
        return dict(py::reinterpret_borrow<py::dict>(object), path);
      case Kind::kDataclass:
        return attributes(object, field_names(object), path);
      case Kind::kModule:
        return module(object, path);
      case Kind::kRegistered:
        return registered(object, path);
      case Kind::kObject:
        if (!is_guarded_ || !is_all_it_holds(object)) {
          visitor_.identity(path, object.ptr(), [&] { return lifetime_of(object); });
        }
        if (is_guarded_) closure_reader().object(object, path);
    }
  }
  void constant(py::handle object, const Path& path) {
    with_constant(object, [&](const auto& value) { visitor_.constant(path, value); });
  }
  // Visits the class of an argument, which may give it more than its fields.
  void guarded_class(py::handle object, const Path& path) {
    if (is_guarded_) closure_reader().class_of(object, Path(path, "class"));
  }
  void held(py::handle value, Kind kind, const Path& path) {
    switch (kind) {
      case Kind::kDict:
        return entries(py::reinterpret_borrow<py::dict>(value), path);
      case Kind::kList:
        return elements(py::reinterpret_borrow<py::list>(value), path);
      case Kind::kTuple:
      case Kind::kNamedTuple:
        type_of(value, path);
        if (kind == Kind::kNamedTuple) closure_reader().class_of(value, Path(path, "class"));
        if (!PyTuple_CheckExact(value.ptr())) closure_reader().named_attributes(value, path);
        return elements(py::reinterpret_borrow<py::tuple>(value), path);
      case Kind::kSubclass:
        visitor_.subclass(path, type_name(value));
        return identity(path, value);
      case Kind::kModule:  // held as an attribute, not registered as a child
        return closure_reader().module(value, path);
      case Kind::kRegistered: {
        const Parts parts = parts_of(value);
        type_of(value, path);
        closure_reader().class_of(value, Path(path, "class"));
        attribute(parts.context, Path(path, "context"));
        return elements(parts.children, path);
      }
      default:
        return closure_reader().object(value, path);
    }
  }

  void tensor(py::handle object, const Path& path) {
    const at::Tensor& tensor = THPVariable_Unpack(object.ptr());
    if (inside_ != TensorRole::kArgument || is_guarded_) what_is_its_own(object, path);
    if (inside_ == TensorRole::kModule) return visitor_.module_tensor(path, tensor);
    if (inside_ == TensorRole::kArgument) return leaf(tensor, path);
    visitor_.identity(path, tensor.unsafeGetTensorImpl(), [&] { return lifetime_if_any(object); });
    const diptych::detail::AutogradFacts autograd(*tensor.unsafeGetTensorImpl());
    visitor_.constant(path, autograd.requires_grad);
    for (const int64_t size : tensor.sizes()) visitor_.constant(path, size);
    visitor_.constant(Path(path, "layout"), static_cast<int64_t>(hash_of_layout(tensor, autograd.is_leaf)));
  }
  // A tensor of a class that wraps calls: traced with, and its class counts, where a compiled function is given it.
  void carrier(py::handle object, const Path& path) {
    const bool is_held = inside_ != TensorRole::kArgument;
    if (!is_held && !takes_carriers_) visitor_.subclass(path, type_name(object));
    if (is_held || is_guarded_) {
      type_of(object, path);
      closure_reader().class_of(object, Path(path, "class"));
    }
    tensor(object, path);
  }
  // Visits what a function may ask of a tensor without an operator: whether it is a Parameter, and attributes that were
  // set.
  void what_is_its_own(py::handle object, const Path& path) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) != THPVariableClass && kind_of(object) == Kind::kTensor &&
        inside_ == TensorRole::kArgument) {
      type_of(object, path);
    }
    if (const py::object held = attributes_of_tensor(object)) {
      closure_reader().attributes_of_tensor(held, Path(path, "attributes"));
    }
  }
  void absent(const Path& path) {
    inside_ == TensorRole::kArgument ? leaf(kUndefined, path) : type_of(absent_tensor(), path);
  }
  // A visitor that replaces tensors reads only modules, so it meets no leaves.
  void leaf(const at::Tensor& tensor, const Path& path) {
    if constexpr (!diptych::detail::replaces_tensors<Visitor>()) visitor_.tensor(path, tensor);
  }
  void identity(const Path& path, py::handle object) {
    visitor_.identity(path, object.ptr(), [&] { return lifetime_if_any(object); });
  }
  template <class Sequence>
  void sequence(const Sequence& elements, Structure structure, const Path& path) {
    visitor_.structure(path, structure, static_cast<int64_t>(elements.size()));
    int64_t index = 0;
    for (const py::handle element : elements) argument(element, Path(path, index++));
  }
  template <class Names>
  void attributes(py::handle object, const Names& names, const Path& path) {
    type_of(object, path);
    guarded_class(object, path);
    visitor_.structure(path, Structure::kStruct, static_cast<int64_t>(names.size()));
    for (const py::handle name : names) {
      with_key(name, [&](auto key) { argument(object.attr(name), Path(path, key)); });
    }
  }
  void dict(const py::dict& dict, const Path& path) {
    const py::list keys = sorted_keys(dict, path);
    if (is_guarded_ && !PyDict_CheckExact(dict.ptr())) {
      type_of(dict, path);
      guarded_class(dict, path);
    }
    visitor_.structure(path, Structure::kMap, static_cast<int64_t>(keys.size()));
    for (const py::handle key : keys) with_key(key, [&](auto name) { visitor_.key(path, name); });
    if (is_guarded_ && !has_order(dict, keys)) {
      for (const py::handle key : keys_in_order(dict))
        with_key(key, [&](auto name) { visitor_.constant(Path(path, "order"), name); });
    }
    for (const py::handle key : keys) with_key(key, [&](auto name) { argument(dict[key], Path(path, name)); });
  }
  static bool has_order(const py::dict& dict, const py::list& keys) {
    size_t index = 0;
    if (PyODict_Check(dict.ptr())) return keys_in_order(dict).equal(keys);
    return std::all_of(dict.begin(), dict.end(), [&](const auto& entry) { return entry.first.is(keys[index++]); });
  }
  void registered(py::handle object, const Path& path) {
    const Parts parts = parts_of(object);
    type_of(object, path);
    guarded_class(object, path);
    argument(parts.context, Path(path, "context"));
    sequence(parts.children, Structure::kSequence, path);
  }

  template <class Sequence>
  void elements(const Sequence& values, const Path& path) {
    visitor_.structure(path, Structure::kSequence, static_cast<int64_t>(values.size()));
    int64_t index = 0;
    for (const py::handle value : values) attribute(value, Path(path, index++));
  }
  // Visits the entries in the dict's own order, which user code can observe.
  void entries(const py::dict& dict, const Path& path) {
    visitor_.structure(path, Structure::kMap, static_cast<int64_t>(dict.size()));
    if (dict.size() > 1 && PyODict_Check(dict.ptr())) {  // its order is not that of the underlying dict
      const py::list keys = keys_in_order(dict);
      for (const py::handle key : keys) entry_key(key, path);
      for (const py::handle key : keys) entry(key, py::object(dict[key]), path);
    } else {
      for (const auto& [key, value] : dict) entry_key(key, path);
      for (const auto& [key, value] : dict) entry(key, value, path);
    }
    if (!PyDict_CheckExact(dict.ptr()) && has_users_base(Py_TYPE(dict.ptr()))) closure_reader().object(dict, path);
  }
  void entry_key(py::handle key, const Path& path) {
    if (!is_key(key)) return visitor_.key(path, std::string_view("an object"));
    with_key(key, [&](auto name) { visitor_.key(path, name); });
  }
  void entry(py::handle key, py::handle value, const Path& path) {
    if (is_key(key)) {
      with_key(key, [&](auto name) { attribute(value, Path(path, name)); });
    } else {
      attribute(key, Path(path, "key"));
      attribute(value, Path(path, "value"));
    }
  }

  void module(py::handle object, const Path& path) {
    const bool is_new = met_.enter(object.ptr());
    if (inside_ == TensorRole::kClosure && !is_new) return identity(path, object);
    module_facts(object, path);
    const TensorRole tensors = inside_ == TensorRole::kArgument ? TensorRole::kModule : inside_;
    module_tensors(object, "_parameters", tensors, path);
    module_tensors(object, "_buffers", tensors, path);
  }
  // Visits a module's identity, and all that its forward may read without going through a tensor: attributes, hooks,
  // globals.
  void module_facts(py::handle object, const Path& path) {
    const Nesting nesting(met_.depth, path);
    identity(path, object);
    type_of(object, path);
    closure_reader().method(object, "forward", Path(path, "forward"));
    closure_reader().class_of(object, Path(path, "class"));
    const py::dict members = object.attr("__dict__");
    Reader inside(visitor_, met_, inside_ == TensorRole::kArgument ? TensorRole::kModule : inside_, depth_);
    for (const auto& [name, value] : members) {
      if (is_registry(name)) continue;
      with_key(name, [&, &value = value](auto key) { inside.attribute(value, Path(path, key)); });
    }
    const py::dict children = members["_modules"];
    visitor_.structure(path, Structure::kChildren, static_cast<int64_t>(children.size()));
    for_each_in(children, [&](auto key, py::handle child) { module_facts(child, Path(path, key)); });
  }
  template <class Visit>
  static void for_each_in(const py::dict& registry, const Visit& visit) {
    for (const auto& [name, member] : registry) {
      if (member.is_none()) continue;
      with_key(name, [&, &member = member](auto key) { visit(key, member); });
    }
  }
  static bool is_registry(py::handle name) {
    const auto text = name.cast<std::string_view>();
    return text == "_parameters" || text == "_buffers" || text == "_modules";
  }
  void module_tensors(py::handle object, const char* registry, TensorRole inside, const Path& path) {
    const Nesting nesting(met_.depth, path);
    const py::dict members = object.attr("__dict__");
    Reader reader(visitor_, met_, inside, depth_);
    for_each_in(members[registry], [&](auto key, py::handle tensor) { reader.argument(tensor, Path(path, key)); });
    for_each_in(members["_modules"],
                [&](auto key, py::handle child) { module_tensors(child, registry, inside, Path(path, key)); });
  }

  ClosureReader<Visitor> closure_reader() { return ClosureReader<Visitor>(visitor_, met_, depth_); }

  Visitor& visitor_;
  Visited& met_;
  TensorRole inside_;
  int depth_;            ///< of objects inside objects
  bool takes_carriers_;  ///< whether tensors of an argument or a result may be of any class that wraps calls
  bool is_guarded_ = false;
};

}  // namespace diptych::python
