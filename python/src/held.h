// What a guard reads of an object that is no tree.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>

namespace diptych::python {

namespace py = pybind11;

/// What there is to read in an object.
enum class Holds : uint8_t {
  kNothing,     ///< known by its address: an enumeration's member, an object or a class of the standard library
  kClass,       ///< numbers, strings and containers that it gives names
  kElements,    ///< a set
  kArguments,   ///< functools.partial
  kAttributes,  ///< what its class does not know
};

/// What an object of no other kind holds; remembered by type. Requires: the GIL.
Holds holds(py::handle object);

/// Whether a class is torch's, of the standard library, or ours. Remembered. Requires: the GIL.
bool is_class_of_library(py::handle type);

/// An object's attributes by name, those in slots as well; without asking its class for computed ones.
py::dict attributes_of(py::handle object);

/// Whether a function is of an installed library, the standard one, or ours; what it reads is not read.
bool is_of_library(PyObject* function);

/// The user's Python function that a callable is, or that a decorator of a library's has put inside it; null if none.
PyObject* users_function(PyObject* callable);

/// What is called when an attribute that a class has is used: behind a property, a static or a class method.
py::object method_behind(py::handle attribute);

/// Something that lives for as long as the object, or nothing where that can't be told.
std::weak_ptr<const void> lifetime_if_any(py::handle object);

}  // namespace diptych::python
