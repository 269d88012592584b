// The keys of dicts, as visitors see them.
#pragma once
#include <pybind11/pybind11.h>

#include <cstdint>
#include <string_view>

#include "diptych/base/error.h"
#include "diptych/tree/path.h"

namespace diptych::python {

namespace py = pybind11;

/// Refuses an object that no tree can hold. A compiled function with eager_fallback runs its function instead.
class NoTree final : public UserError {
 public:
  using UserError::UserError;
};

/// Returns the keys of a dict, sorted: all strings, or all integers. Errors: NoTree for other keys.
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

/// Returns the keys of a dict in iteration order, which for an OrderedDict may differ from the order of its entries.
py::list keys_in_order(const py::dict& dict);

}  // namespace diptych::python
