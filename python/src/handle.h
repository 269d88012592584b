// A reference to a Python object that C++ may copy and drop without holding the GIL.
#pragma once
#include <pybind11/pybind11.h>

#include <memory>

namespace diptych::python {

namespace py = pybind11;

/// Copies share one reference; the last one takes the GIL to release it. Threads: any; object() requires the GIL.
class Handle {
 public:
  Handle() = default;
  explicit Handle(py::object object) : object_(new py::object(std::move(object)), Drop{}) {}
  /// Returns the object; None for an empty handle.
  py::object object() const { return object_ ? *object_ : py::none(); }
  py::handle get() const { return object_ ? py::handle(*object_) : py::none(); }

 private:
  struct Drop {
    void operator()(py::object* object) const {
      // After the end of the interpreter, there is nothing to release it to.
      if (!Py_IsInitialized()) return;
      const py::gil_scoped_acquire gil;
      delete object;
    }
  };
  std::shared_ptr<py::object> object_;
};

}  // namespace diptych::python
