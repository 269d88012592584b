// A reference to a Python object that C++ may copy and drop without holding the GIL.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>

namespace diptych::python {

namespace py = pybind11;

/// Copies share one reference; the last one takes the GIL to give it back. Threads: any; object() wants the GIL.
class Handle {
 public:
  Handle() = default;
  explicit Handle(py::object object) : object_(new py::object(std::move(object)), Drop{}) {}
  /// None for an empty handle.
  py::object object() const { return object_ ? *object_ : py::none(); }
  py::handle get() const { return object_ ? py::handle(*object_) : py::none(); }

 private:
  struct Drop {
    void operator()(py::object* object) const {
      // At the end of the process there is nothing to give it back to.
      if (!Py_IsInitialized()) return;
      const py::gil_scoped_acquire gil;
      delete object;
    }
  };
  std::shared_ptr<py::object> object_;
};

}  // namespace diptych::python
