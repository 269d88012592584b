// Facts about objects that do not change (classes, code, modules), remembered by address.
#pragma once
#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <unordered_map>

namespace diptych::python {

/// One fact for each object. An object is kept alive once its fact was asked for, so that no other object gets its
/// address. Requires: the GIL; an instance that lives as long as the process.
template <class Object, class Fact>
class ByAddress {
 public:
  /// Returns the fact of `object`, which `find` determines the first time.
  template <class Find>
  Fact get(Object* object, const Find& find) {
    Recent& recent = recent_[(reinterpret_cast<uintptr_t>(object) >> 4) % recent_.size()];
    if (recent.object != object) recent = {object, look_up(object, find)};
    return recent.fact;
  }

 private:
  template <class Find>
  Fact look_up(Object* object, const Find& find) {
    if (const auto known = facts_->find(object); known != facts_->end()) return known->second;
    const Fact fact = find(pybind11::handle(reinterpret_cast<PyObject*>(object)));
    if (facts_->emplace(object, fact).second) Py_INCREF(object);
    return fact;
  }

  /// Guards ask for the same few classes again and again: most are found here by their address alone.
  struct Recent {
    Object* object = nullptr;
    Fact fact{};
  };
  std::array<Recent, 64> recent_;
  std::unordered_map<Object*, Fact>* const facts_ = new std::unordered_map<Object*, Fact>;
};

template <class Fact>
using ByType = ByAddress<PyTypeObject, Fact>;

}  // namespace diptych::python
