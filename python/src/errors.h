// Errors on their way between Python and C++.
#pragma once
#include <pybind11/pybind11.h>

#include <exception>
#include <string>

namespace diptych::python {

namespace py = pybind11;

/// Makes diptych.UserError and diptych.InternalError, and raises LibTorch's errors as torch raises them.
void bind_errors(py::module_& module);

/// Throws the original UserError, with the traceback, if `error` is a RuntimeError that torch made of it; inside a
/// capture, also throws a UserError in place of torch's refusals, such as to read the memory of a stand-in.
void restore_user_error(py::error_already_set& error);

struct ExceptionOfFunction {
  py::object value = py::none();
  bool is_of_backward = false;  ///< whether a hook or a Function of a backward raised it, which the engine ran
};
/// Returns the exception if Python code raised it, and if it is neither a refusal or a fault of ours, nor one that the
/// user at the keyboard raised, which may have come anywhere; else None. Requires: the GIL; bind_errors() was called.
ExceptionOfFunction exception_of_function(const std::exception_ptr& thrown);

/// Returns the text of a UserError that Python code passed on; "" for other exceptions. Requires: as above.
std::string refusal_in_python(const std::exception_ptr& thrown);

}  // namespace diptych::python
