#include "guards/environment.h"

#include <algorithm>
#include <unordered_map>

namespace diptych::python {
namespace {

/// By the function's address. What is left of a function that has ended makes guards of another at its address compare
/// more than they need to.
using Names = std::unordered_map<PyObject*, std::vector<py::object>>;

Names& names_by_function() {
  static auto* const kept = new Names;
  return *kept;
}

PyObject* attributes_of_os() {
  static PyObject* const kept = PyModule_GetDict(py::module_::import("os").release().ptr());
  return kept;
}

}  // namespace

bool guard_environment(PyObject* function, const py::iterable& names) {
  bool is_new = false;
  for (const py::handle name : names) {
    auto& known = names_by_function()[function];
    if (std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.equal(name); })) continue;
    known.push_back(py::reinterpret_borrow<py::object>(name));
    is_new = true;
  }
  return is_new;
}

const std::vector<py::object>* guarded_environment(PyObject* function) {
  const Names& known = names_by_function();
  const auto found = known.empty() ? known.end() : known.find(function);
  return found == known.end() ? nullptr : &found->second;
}

PyObject* values_of_environment() {
  PyObject* const environment = PyDict_GetItemString(attributes_of_os(), "environ");
  if (environment == nullptr) return nullptr;
  const py::object values = py::getattr(environment, "_data", py::none());
  return PyDict_Check(values.ptr()) ? values.ptr() : nullptr;  // which the environment keeps alive
}

}  // namespace diptych::python
