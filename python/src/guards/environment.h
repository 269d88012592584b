// Variables of the environment that functions read: guards compare their values.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "diptych/tree/path.h"

namespace diptych::python {

namespace py = pybind11;

/// Has the guards of a function compare variables of the environment, given by their names as bytes. Which ones a
/// function reads is known once it has run. Returns whether there is one that they did not compare before.
/// Requires: the GIL.
bool guard_environment(PyObject* function, const py::iterable& names);
/// Returns the names for guard_environment(); null if there are none.
const std::vector<py::object>* guarded_environment(PyObject* function);
/// Returns the values of the environment by name, as bytes; null if the program has put something else in its place.
PyObject* values_of_environment();

inline std::string_view text_of_bytes(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

template <class Visitor>
void visit_environment(PyObject* function, const Path& path, Visitor& visitor) {
  const auto* const names = guarded_environment(function);
  if (names == nullptr) return;
  PyObject* const values = values_of_environment();
  visitor.constant(path, reinterpret_cast<int64_t>(values));
  for (const py::object& name : *names) {
    PyObject* const value = values == nullptr ? nullptr : PyDict_GetItem(values, name.ptr());
    const Path at(path, text_of_bytes(name.ptr()));
    if (value == nullptr || !PyBytes_Check(value)) {
      visitor.constant(at, nullptr);
    } else {
      visitor.constant(at, text_of_bytes(value));
    }
  }
}

}  // namespace diptych::python
