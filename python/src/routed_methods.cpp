// Methods of tensors that hand memory to Python, as they are in a trace. Their definitions are replaced, as those of
// attributes are (watched_attributes.cpp), and not the methods: Dynamo knows these as they are.
#include <descrobject.h>
#include <torch/csrc/autograd/python_variable.h>

#include <array>

#include "bindings.h"
#include "diptych/base/check.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::python {

using namespace detail;
namespace {

/// A method of torch.Tensor, and what is called in its place in a trace.
struct Method {
  const char* name;
  PyMethodDef ours{};
  const PyMethodDef* definition{};  ///< torch's
  py::object torchs{};              ///< the method as it was
  py::object in_trace{};            ///< called with torchs and the arguments
};

constexpr size_t kNumMethods = 3;

std::array<Method, kNumMethods>& methods() {
  static auto* const kept = new std::array<Method, kNumMethods>{Method{"item"}, Method{"numpy"}, Method{"tolist"}};
  return *kept;
}

PyCFunctionWithKeywords with_keywords(PyCFunction function) {
  return reinterpret_cast<PyCFunctionWithKeywords>(reinterpret_cast<void*>(function));
}

PyObject* call_in_trace(const Method& method, PyObject* self, PyObject* args, PyObject* keywords) {
  try {
    const auto given = args == nullptr ? py::tuple() : py::reinterpret_borrow<py::tuple>(args);
    const auto named = keywords == nullptr ? py::dict() : py::reinterpret_borrow<py::dict>(keywords);
    return method.in_trace(method.torchs, py::handle(self), *given, **named).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

template <size_t kMethod>
PyObject* call_without(PyObject* self, PyObject* none) {
  const Method& method = methods()[kMethod];
  return is_tracing() ? call_in_trace(method, self, nullptr, nullptr) : method.definition->ml_meth(self, none);
}

template <size_t kMethod>
PyObject* call_with(PyObject* self, PyObject* args, PyObject* keywords) {
  const Method& method = methods()[kMethod];
  if (is_tracing()) return call_in_trace(method, self, args, keywords);
  return with_keywords(method.definition->ml_meth)(self, args, keywords);
}

template <size_t kMethod>
PyCFunction ours(int flags) {
  if (flags == METH_NOARGS) return &call_without<kMethod>;
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_with<kMethod>));
}

PyCFunction ours(size_t index, int flags) {
  constexpr std::array kOurs{&ours<0>, &ours<1>, &ours<2>};
  return kOurs[index](flags);
}

// Has a method call `in_trace` in traces.
void route_method(const std::string& name, py::object in_trace) {
  size_t index = 0;
  while (index < kNumMethods && methods()[index].name != name) ++index;
  DIPTYCH_ASSERT(index < kNumMethods, "no method {} is routed", name);
  Method& method = methods()[index];
  const py::dict members(py::module_::import("torch._C").attr("TensorBase").attr("__dict__"));
  auto* const descriptor = reinterpret_cast<PyMethodDescrObject*>(py::object(members[method.name]).ptr());
  PyTypeObject* const type = descriptor->d_common.d_type;
  method.torchs = py::reinterpret_steal<py::object>(PyDescr_NewMethod(type, descriptor->d_method));
  method.in_trace = std::move(in_trace);
  method.definition = descriptor->d_method;
  method.ours = *method.definition;
  method.ours.ml_meth = ours(index, method.ours.ml_flags);
  descriptor->d_method = &method.ours;
}

}  // namespace

void bind_routed_methods(py::module_& module) {
  module.def("route_method", &route_method, py::arg("name"), py::arg("in_trace"),
             "Has a method of tensors call in_trace(method, tensor, *args, **keywords) in traces.");
}

}  // namespace diptych::python
