// Python objects as trees: the Tree of a Value visits what the object holds, as the Tree of a C++ value visits its
// fields. Dicts are visited in the order of their sorted keys, dataclasses and named tuples in the order of their
// declaration, modules by their named parameters, then their named buffers.
#pragma once
#include "guards/closure.h"
#include "handle.h"
#include "value_rebuilder.h"

namespace diptych::python {

/// Any Python object as an argument or a result. Threads: any; visiting takes the GIL.
struct Value {
  Handle handle;
  bool takes_carriers = false;  ///< whether it is the result of a captured function: see Kind::kCarrier
  Value() = default;
  explicit Value(py::object object, bool takes_carriers = false)
      : handle(std::move(object)), takes_carriers(takes_carriers) {}
};

/// An argument of a function that is captured for it: everything that the function may see of it counts, such as the
/// order of a dict's keys.
struct Argument : Value {
  using Value::Value;
  explicit Argument(Value value) : Value(std::move(value)) {}
};

template <class Object, class Visitor>
void visit_object(Object& value, const Path& path, Visitor& visitor, bool is_guarded) {
  const py::gil_scoped_acquire gil;
  if constexpr (!std::is_const_v<Object> && diptych::detail::replaces_tensors<Visitor>()) {
    const bool takes_carriers = value.takes_carriers;
    value = Object(Rebuilder<Visitor>(visitor, is_guarded, takes_carriers).rebuild(value.handle.get(), path));
    value.takes_carriers = takes_carriers;
  } else {
    Visited met;
    Reader<Visitor> reader(visitor, met, TensorRole::kArgument, 0, value.takes_carriers);
    reader.visit(value.handle.get(), path, is_guarded);
  }
}

/// Visits one of several arguments. Afterwards `met` keeps only the classes that were met, since the function may read
/// their attributes. Requires: the GIL.
template <class Object, class Visitor>
void visit_argument(Object& value, const Path& path, Visitor& visitor, Visited& met, bool takes_carriers) {
  if constexpr (!std::is_const_v<Object> && diptych::detail::replaces_tensors<Visitor>()) {
    value = Object(Rebuilder<Visitor>(visitor, /*is_argument=*/true).rebuild(value.handle.get(), path));
  } else {
    Reader<Visitor> reader(visitor, met, TensorRole::kArgument, 0, takes_carriers);
    reader.visit(value.handle.get(), path, /*is_guarded=*/true);
    met.keep_classes();
  }
}

}  // namespace diptych::python

namespace diptych {

template <>
struct Tree<python::Value> {
  template <class Object, class Visitor>
  static void visit(Object& value, const Path& path, Visitor& visitor) {
    python::visit_object(value, path, visitor, /*is_guarded=*/false);
  }
};

template <>
struct Tree<python::Argument> {
  template <class Object, class Visitor>
  static void visit(Object& value, const Path& path, Visitor& visitor) {
    python::visit_object(value, path, visitor, /*is_guarded=*/true);
  }
};

}  // namespace diptych
