// Errors on their way between Python and C++.
#pragma once
#include <pybind11/pybind11.h>

#include <exception>

namespace diptych::python {

namespace py = pybind11;

/// Makes diptych.UserError and diptych.InternalError, and has LibTorch's errors raised as torch raises them.
void bind_errors(py::module_& module);

/// Raises a RuntimeError that torch made of a UserError as the UserError that it was, with its traceback; within a
/// capture torch's refusal to read the memory of a stand-in as a UserError, too.
void restore_user_error(py::error_already_set& error);

/// The exception, if Python code raised it, and it is neither a refusal nor a fault of ours, nor one that ends a
/// program; else None. Requires: the GIL; bind_errors() was called.
py::object exception_of_function(const std::exception_ptr& thrown);

}  // namespace diptych::python
