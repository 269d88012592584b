#include "locations.h"

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "diptych/trace/location.h"

namespace diptych::python {

using namespace detail;
namespace {

namespace py = pybind11;

/// Whether a file is in one of the folders whose code is not the user's.
bool is_of_library(const std::string& file) {
  static const auto* const folders = new std::vector<std::string>{
      py::module_::import("torch").attr("__path__").attr("__getitem__")(0).cast<std::string>(),
      py::module_::import("diptych").attr("__path__").attr("__getitem__")(0).cast<std::string>()};
  return std::any_of(folders->begin(), folders->end(),
                     [&](const std::string& folder) { return file.rfind(folder, 0) == 0; });
}

/// The place of a line. Both texts are the user's, so neither may be used as a format.
struct Place {
  std::string file;
  std::string function;
};

/// Returns the place of a code object, which is kept alive; null for code that is not the user's.
const Place* place_of(PyCodeObject* code) {
  static auto* const places = new std::unordered_map<PyCodeObject*, std::optional<Place>>;
  const auto [found, is_new] = places->try_emplace(code);
  if (is_new) {
    Py_INCREF(code);
    const auto file = py::handle(code->co_filename).cast<std::string>();
    if (!is_of_library(file)) {
      found->second = Place{file.substr(file.rfind('/') + 1), py::handle(code->co_name).cast<std::string>()};
    }
  }
  return found->second ? &*found->second : nullptr;
}

InternedString location() {
  const py::gil_scoped_acquire gil;  // operators release it while they run
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  InternedString found;
  while (frame != nullptr && found.empty()) {
    PyCodeObject* const code = PyFrame_GetCode(frame);
    if (const Place* place = place_of(code)) {
      found = InternedString(fmt::format("{}:{} {}", place->file, PyFrame_GetLineNumber(frame), place->function));
    }
    Py_DECREF(code);
    PyFrameObject* const back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return found;
}

}  // namespace

void tell_locations() { set_location_source(location); }

}  // namespace diptych::python
