// What is known of classes, remembered.
#pragma once
#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <unordered_map>

namespace diptych::python {

/// One fact for each class. A class is kept alive once it was asked for, so that its address stays its own.
/// Requires: the GIL; one that lives as long as the process.
template <class Fact>
class ByType {
 public:
  /// The fact of `type`, which `find` tells the first time.
  template <class Find>
  Fact get(PyTypeObject* type, const Find& find) {
    Recent& recent = recent_[(reinterpret_cast<uintptr_t>(type) >> 4) % recent_.size()];
    if (recent.type != type) recent = {type, look_up(type, find)};
    return recent.fact;
  }

 private:
  template <class Find>
  Fact look_up(PyTypeObject* type, const Find& find) {
    if (const auto known = facts_->find(type); known != facts_->end()) return known->second;
    const Fact fact = find(pybind11::handle(reinterpret_cast<PyObject*>(type)));
    if (facts_->emplace(type, fact).second) Py_INCREF(type);
    return fact;
  }

  /// A guard asks for a few classes again and again: most are found by their address alone.
  struct Recent {
    PyTypeObject* type = nullptr;
    Fact fact{};
  };
  std::array<Recent, 64> recent_;
  std::unordered_map<PyTypeObject*, Fact>* const facts_ = new std::unordered_map<PyTypeObject*, Fact>;
};

}  // namespace diptych::python
