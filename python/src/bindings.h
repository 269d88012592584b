// One function per file of bindings.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "diptych/compile/options.h"

namespace diptych::python {

namespace py = pybind11;

/// A compiler that takes a Graph and returns a callable from a list of tensors to a list of tensors; empty for None.
Compiler compiler_from(const py::object& callable);
void bind_graph(py::module_& module);
void bind_signature(py::module_& module);
void bind_pair(py::module_& module);
void bind_options(py::module_& module);
void bind_aot(py::module_& module);
void bind_asked_values(py::module_& module);
void bind_modes();
void bind_backward_reads();
void bind_hook_graphs();
void watch_attributes();
void bind_hops(py::module_& module);
void bind_open_numbers(py::module_& module);
void bind_host_generators(py::module_& module);
void bind_routed_methods(py::module_& module);
void bind_routed_subscripts(py::module_& module);
void bind_native(py::module_& module);
void bind_checkpoint(py::module_& module);
void bind_backward_capture(py::module_& module);
/// Ends the open numbers of the trace that runs on this thread: what keeps one has a float. Requires: the GIL.
void close_open_numbers();
void bind_files(py::module_& module);
void bind_device_step(py::module_& module);

}  // namespace diptych::python
