#include "errors.h"

#include <torch/csrc/Exceptions.h>

#include "diptych/base/error.h"
#include "diptych/base/last_error.h"

namespace diptych::python {
namespace {

PyObject* user_error = nullptr;

// LibTorch's classes of errors and Python's; without the lines of C++ that torch leaves out, too.
void raise_as_torch_does(const c10::Error& error) {
  PyObject* type = PyExc_RuntimeError;
  if (dynamic_cast<const c10::IndexError*>(&error) != nullptr) type = PyExc_IndexError;
  if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) type = PyExc_ValueError;
  if (dynamic_cast<const c10::TypeError*>(&error) != nullptr) type = PyExc_TypeError;
  if (dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr) type = PyExc_NotImplementedError;
  PyErr_SetString(type, error.what_without_backtrace());
}

}  // namespace

void bind_errors(py::module_& module) {
  static py::exception<UserError> user(module, "UserError", PyExc_RuntimeError);
  static py::exception<InternalError> internal(module, "InternalError", PyExc_RuntimeError);
  user_error = user.ptr();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const UserError& error) {
      PyErr_SetString(user.ptr(), error.what());
    } catch (const InternalError& error) {
      PyErr_SetString(internal.ptr(), error.what());
    } catch (python_error& error) {
      error.restore();
    } catch (const c10::Error& error) {
      raise_as_torch_does(error);
    }
  });
}

void restore_user_error(py::error_already_set& error) {
  if (!error.matches(PyExc_RuntimeError) || error.matches(user_error)) return;
  const std::string text = py::str(error.value());
  if (text != diptych::detail::last_user_error()) return;
  const py::object restored = py::handle(user_error)(text);
  PyException_SetTraceback(restored.ptr(), error.trace() ? error.trace().ptr() : Py_None);
  PyErr_SetObject(user_error, restored.ptr());
  throw py::error_already_set();
}

}  // namespace diptych::python
