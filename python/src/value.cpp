#include "value.h"
#include <fmt/format.h>

namespace diptych::python {

UninitializedMet::UninitializedMet(const std::string& path)
    : UserError(fmt::format("[tree] '{}' is an uninitialized tensor of a lazy module, expected one with sizes; call "
                            "the module once before, outside Diptych",
                            path)),
      why_(fmt::format("'{}' is an uninitialized tensor of a lazy module, which its first call initializes", path)) {}

void refuse_uninitialized(py::handle object, const Path& path) {
  if (is_uninitialized(object)) throw UninitializedMet(path.str());
}

py::list sorted_keys(const py::dict& dict, const Path& path) {
  py::list keys;
  size_t num_strings = 0, num_integers = 0;
  for (const auto& [key, value] : dict) {
    num_strings += PyUnicode_Check(key.ptr());
    num_integers += PyLong_CheckExact(key.ptr());
    keys.append(key);
  }
  if (num_strings != keys.size() && num_integers != keys.size()) {
    throw NoTree(
        fmt::format("[tree] '{}' is a dict with keys such as {}, expected only strings or only integers, which order "
                    "its values; convert the keys",
                    path.str(), py::repr(keys[0]).cast<std::string>()));
  }
  if (PyList_Sort(keys.ptr()) != 0) throw py::error_already_set();
  return keys;
}

py::list keys_in_order(const py::dict& dict) {
  const auto keys = py::reinterpret_steal<py::list>(PySequence_List(dict.ptr()));
  if (!keys) throw py::error_already_set();
  return keys;
}

void refuse_depth(const Path& path) {
  throw NoTree(
      fmt::format("[tree] '{}...' is nested more than 500 levels deep, or contains itself; pass the tensors in one "
                  "list, and leave out references to an outer container",
                  path.str().substr(0, 60)));
}

bool is_key(py::handle key) {
  if (PyUnicode_CheckExact(key.ptr())) return true;
  int overflow = 0;
  return PyLong_CheckExact(key.ptr()) && (PyLong_AsLongLongAndOverflow(key.ptr(), &overflow), overflow == 0);
}

// Takes the repr() of the builtin base, since that of a derived class may say less.
std::string text_of_constant(py::handle object) {
  reprfunc repr = PyObject_Repr;
  if (PyLong_Check(object.ptr())) repr = PyLong_Type.tp_repr;
  if (PyFloat_Check(object.ptr())) repr = PyFloat_Type.tp_repr;
  if (PyComplex_Check(object.ptr())) repr = PyComplex_Type.tp_repr;
  if (PyUnicode_Check(object.ptr())) repr = PyUnicode_Type.tp_repr;
  const auto text = py::reinterpret_steal<py::str>(repr(object.ptr()));
  if (!text) throw py::error_already_set();
  return type_name(object) + " " + text.cast<std::string>();
}

}  // namespace diptych::python
