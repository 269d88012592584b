#include "errors.h"

#include <torch/csrc/Exceptions.h>

#include "diptych/base/last_error.h"
#include "diptych/trace/recorder.h"

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

// Torch's words where something wants the data of a stand-in.
bool reads_memory(const std::string& text) {
  return text.starts_with("Cannot access data pointer of Tensor") ||
         text.find("its data is not allocated yet") != text.npos;
}

// "file.py:12", the innermost line of the traceback.
std::string traced_line(const py::error_already_set& error) {
  py::object at = error.trace();
  if (!at) return "a line that is not known";
  while (!at.attr("tb_next").is_none()) at = at.attr("tb_next");
  const auto path = at.attr("tb_frame").attr("f_code").attr("co_filename").cast<std::string>();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), at.attr("tb_lineno").cast<int>());
}

}  // namespace

void bind_errors(py::module_& module) {
  static py::exception<UserError> user(module, "UserError", PyExc_RuntimeError);
  static py::exception<InternalError> internal(module, "InternalError", PyExc_RuntimeError);
  user_error = user.ptr();
  diptych::detail::set_host_throw([](const UserError& error) {
    if (diptych::detail::Recorder::current() != nullptr) return;  // a capture is above, and not torch's binding
    const py::gil_scoped_acquire gil;
    PyErr_SetString(user_error, error.what());
    python_error raised;
    raised.persist();
    throw raised;
  });
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
  std::string text = py::str(error.value());
  if (diptych::detail::Recorder::current() != nullptr && reads_memory(text)) {
    text = fmt::format(
        "[capture] {}: the function reads the memory of a tensor (by numpy(), data_ptr() or an extension), which has "
        "none while it is traced; use operators of torch, or do that outside the function",
        traced_line(error));
  } else if (text != diptych::detail::last_user_error()) {
    return;
  }
  const py::object restored = py::handle(user_error)(text);
  PyException_SetTraceback(restored.ptr(), error.trace() ? error.trace().ptr() : Py_None);
  PyErr_SetObject(user_error, restored.ptr());
  throw py::error_already_set();
}

}  // namespace diptych::python
