#include "errors.h"

#include <fmt/format.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <string_view>

#include "diptych/base/last_error.h"
#include "diptych/compile/host_error.h"
#include "diptych/trace/recorder.h"
#include "guards/classes.h"

namespace diptych::python {
namespace {

PyObject* user_error = nullptr;
PyObject* internal_error = nullptr;

// Raises the Python class for an error of LibTorch, without the C++ backtrace, which torch leaves out, too.
template <class E>
bool is(const c10::Error& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

// Returns the class that torch's bindings raise for an error of ATen.
py::object class_of(const c10::Error& error) {
  const auto builtin = [](PyObject* type) { return py::reinterpret_borrow<py::object>(type); };
  if (is<c10::IndexError>(error)) return builtin(PyExc_IndexError);
  if (is<c10::ValueError>(error)) return builtin(PyExc_ValueError);
  if (is<c10::TypeError>(error)) return builtin(PyExc_TypeError);
  if (is<c10::NotImplementedError>(error)) return builtin(PyExc_NotImplementedError);
  const py::module_ torch = py::module_::import("torch._C");
  if (is<c10::LinAlgError>(error)) return torch.attr("_LinAlgError");
  if (is<c10::OutOfMemoryError>(error)) return torch.attr("OutOfMemoryError");
  return builtin(PyExc_RuntimeError);
}

void raise_as_torch_does(const c10::Error& error) {
  PyErr_SetString(class_of(error).ptr(), error.what_without_backtrace());
}

// Returns the class that torch's bindings raise for the error of ATen that lies under an exception; null if none does.
py::object class_below(const std::exception& error) {
  try {
    std::rethrow_if_nested(error);
  } catch (const c10::Error& below) {
    return class_of(below);
  } catch (const std::exception& below) {
    return class_below(below);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no error of ATen
  }
  return {};
}

// {class that eager raises: the one that is raised for a node of a graph}; never destroyed, since the interpreter may
// be gone by then.
py::dict& classes_of_nodes() {
  static auto* const classes = new py::dict();
  return *classes;
}

// Returns what a UserError is raised as: where a node of a graph has failed, a class that is also the one that eager
// raises, so that who expects the latter catches it.
py::object class_of(const UserError& error) {
  const auto user = py::reinterpret_borrow<py::object>(user_error);
  const py::object below = class_below(error);
  if (!below || !classes_of_nodes().contains(below)) return user;
  return classes_of_nodes()[below];
}

// Makes the classes by what eager raises, each a member of the module, so that exceptions can be pickled.
void make_classes_of_nodes(py::module_& module) {
  const py::object type = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(&PyType_Type));
  const py::module_ torch = py::module_::import("torch._C");
  const auto add = [&](const char* name, const py::object& below) {
    const auto bases = py::make_tuple(py::handle(user_error), below);
    const py::dict members(py::arg("__module__") = module.attr("__name__"),
                           py::arg("__doc__") = "A UserError of a node of a graph that failed as it does in eager.");
    const py::object made = type(name, bases, members);
    classes_of_nodes()[below] = made;
    module.attr(name) = made;
  };
  add("UserIndexError", py::reinterpret_borrow<py::object>(PyExc_IndexError));
  add("UserValueError", py::reinterpret_borrow<py::object>(PyExc_ValueError));
  add("UserTypeError", py::reinterpret_borrow<py::object>(PyExc_TypeError));
  add("UserNotImplementedError", py::reinterpret_borrow<py::object>(PyExc_NotImplementedError));
  add("UserLinAlgError", torch.attr("_LinAlgError"));
  add("UserOutOfMemoryError", torch.attr("OutOfMemoryError"));
}

// A message by which torch refuses to trace a function, and its meaning, in which {} is the line.
struct Refusal {
  std::string_view words;
  const char* meaning;
};
constexpr const char* kReadsMemory =
    "[capture] {}: the function reads the memory of a tensor (by numpy(), data_ptr() or an extension), but a traced "
    "tensor has no memory; use torch's operators, or read it outside the function";
constexpr Refusal kRefusals[] = {
    {"Cannot access data pointer of Tensor", kReadsMemory},
    {"its data is not allocated yet", kReadsMemory},
    {"a tensor with unallocated storage", kReadsMemory},
    {"on an invalid python storage", kReadsMemory},
    {"You're trying to run this operator with meta Tensors",
     "[capture] {}: the function calls an operator whose result's size depends on values, which are not known while it "
     "is traced; keep the decision in tensors, or call it outside the function"},
    {"appears to not have been used in the graph",
     "[capture] {}: the function asks for the gradient of a tensor that it captures, or that nothing was computed "
     "from; "
     "pass the tensor as an argument, or say allow_unused=True"},
    {"There was no fake impl registered for",
     "[capture] {}: the function calls an operator of a library that has no fake kernel, so the sizes of its results "
     "are unknown; register one with register_fake(), or call it outside the function"},
    {"could not find kernel for HigherOrderOperator",
     "[capture] {}: the function calls a higher-order operator of torch; use diptych's operator of that meaning (cond, "
     "scan, map, while_loop, associative_scan)"},
    {"torch._dynamo",
     "[capture] {}: the function calls an operator that torch compiles with Dynamo, such as torch.cond; use diptych's "
     "operator of the same name, or call it outside the function"},
};

const Refusal* find_refusal(const std::string& type, const std::string& text) {
  const auto says = [&](const Refusal& row) {
    return text.find(row.words) != text.npos || type.starts_with(row.words);
  };
  const auto* found = std::find_if(std::begin(kRefusals), std::end(kRefusals), says);
  return found == std::end(kRefusals) ? nullptr : found;
}

// Advice for when torch's own Python code asks for a value, by the file that asks.
struct Advice {
  std::string_view file;
  const char* words;
};
constexpr Advice kAdvice[] = {
    {"/torch/distributions/",
     "; a distribution reads the values of its arguments to validate them: pass validate_args=False"},
    {"/torch/_tensor_str.py", "; the text of a tensor contains its values: print it outside the function"},
    {"/torch/nn/modules/batchnorm.py",
     "; with momentum=None the layer divides by a count in a tensor: pass a momentum"},
    {"/torch/nn/modules/transformer.py",
     "; without is_causal the layer reads the values of its mask: pass is_causal=True or False"},
};

const char* advice_for(const std::string& text, const py::error_already_set& error) {
  const char* words = "";
  if (text.find("needs the values of a tensor") == text.npos) return words;
  for (py::object at = error.trace() ? error.trace() : py::none(); !at.is_none(); at = at.attr("tb_next")) {
    const auto path = at.attr("tb_frame").attr("f_code").attr("co_filename").cast<std::string>();
    for (const Advice& advice : kAdvice) {
      if (path.find(advice.file) != path.npos) words = advice.words;
    }
  }
  return words;
}

// Returns "file.py:12", the innermost line of the traceback that is neither torch's nor this package's, or how to find
// a line where there is none.
std::string traced_line(const py::error_already_set& error) {
  std::string line =
      "a line inside torch (capture parts of the function on their own to find the call that leads to it)";
  for (py::object at = error.trace() ? error.trace() : py::none(); !at.is_none(); at = at.attr("tb_next")) {
    const auto path = at.attr("tb_frame").attr("f_code").attr("co_filename").cast<std::string>();
    if (path.find("/torch/") != path.npos || path.find("/diptych/_") != path.npos) continue;
    line = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), at.attr("tb_lineno").cast<int>());
  }
  return line;
}

// Replaces the exception that is raised by the one that restore_user_error() throws for it.
void raise_anew() {
  try {
    py::error_already_set raised;
    restore_user_error(raised);
    raised.restore();
  } catch (py::error_already_set& ours) {
    ours.restore();
  }
}

}  // namespace

void bind_errors(py::module_& module) {
  static py::exception<UserError> user(module, "UserError", PyExc_RuntimeError);
  static py::exception<InternalError> internal(module, "InternalError", PyExc_RuntimeError);
  user.doc() =
      "An unsupported case or a wrong argument. The text says who refused, what was got, what was expected and what to "
      "change.";
  internal.doc() = "A fault in Diptych itself.";
  user_error = user.ptr();
  internal_error = internal.ptr();
  make_classes_of_nodes(module);
  diptych::detail::set_host_throw([](const UserError& error) {
    if (diptych::detail::Recorder::current() != nullptr) return;  // a capture is the caller, not torch's binding
    const py::gil_scoped_acquire gil;
    PyErr_SetString(user_error, error.what());
    python_error raised;
    raised.persist();
    throw raised;
  });
  diptych::detail::forget_host_error = [] {
    const py::gil_scoped_acquire gil;
    PyErr_Clear();
  };
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const UserError& error) {
      PyErr_SetString(class_of(error).ptr(), error.what());
    } catch (const InternalError& error) {
      PyErr_SetString(internal.ptr(), error.what());
    } catch (python_error& error) {
      error.restore();
      raise_anew();
    } catch (const c10::Error& error) {
      raise_as_torch_does(error);
    }
  });
}

namespace {

// Calls look(exception) of the binding's language that was thrown, which stays as it is, and whether a backward threw
// it; does nothing for an exception of C++.
template <class Look>
void with_exception(const std::exception_ptr& thrown, const Look& look) {
  try {
    std::rethrow_exception(thrown);
  } catch (const py::error_already_set& error) {
    look(error, false);
  } catch (python_error& error) {  // torch's own carrier of an exception, as its engine has it
    error.persist();
    error.restore();
    raise_anew();
    look(py::error_already_set(), true);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a C++ exception
  }
}

}  // namespace

std::string refusal_in_python(const std::exception_ptr& thrown) {
  std::string text;
  with_exception(thrown, [&](const py::error_already_set& error, bool) {
    if (error.matches(user_error)) text = py::str(error.value()).cast<std::string>();
  });
  return text;
}

ExceptionOfFunction exception_of_function(const std::exception_ptr& thrown) {
  ExceptionOfFunction found;
  with_exception(thrown, [&](const py::error_already_set& error, bool is_of_backward) {
    const bool is_ours = error.matches(user_error) || error.matches(internal_error);
    if (!error.matches(PyExc_KeyboardInterrupt) && !is_ours) found = {error.value(), is_of_backward};
  });
  return found;
}

void restore_user_error(py::error_already_set& error) {
  if (error.matches(user_error)) return;
  const auto said = py::reinterpret_steal<py::object>(PyObject_Str(error.value().ptr()));
  if (!said) return PyErr_Clear();  // str() of a user's class failed, or needed a tensor of the trace
  auto text = said.cast<std::string>();
  const bool is_traced = diptych::detail::Recorder::current() != nullptr;
  if (const Refusal* known = is_traced ? find_refusal(type_name(error.value()), text) : nullptr) {
    text = fmt::format(fmt::runtime(known->meaning), traced_line(error));
  } else if (!error.matches(PyExc_RuntimeError) || text != diptych::detail::last_user_error()) {
    return;
  } else {
    text += advice_for(text, error);
  }
  const py::object restored = py::handle(user_error)(text);
  PyException_SetTraceback(restored.ptr(), error.trace() ? error.trace().ptr() : Py_None);
  PyErr_SetObject(user_error, restored.ptr());
  throw py::error_already_set();
}

}  // namespace diptych::python
