// Python's modes around a call, and torch's hooks of all modules, as far as the guards and the entry of a compiled
// function know them.
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "diptych/tree/tree.h"

namespace diptych::python {

/// Returns the devices of torch.device(...) as a context and of torch.set_default_device(), outermost first. Requires:
/// the GIL.
std::vector<std::string> default_devices();

/// Visits the default devices, if there are any, as constants: tensors that a capture makes lie on the innermost.
template <class Visitor>
void visit_default_devices(const Path& path, Visitor& visitor) {
  if (!at::impl::torch_function_mode_enabled()) return;
  for (const std::string& device : default_devices()) visitor.constant(Path(path, "default device"), device);
}

/// Returns the variables in which torch.nn.modules.module keeps the hooks of all modules, by name: those that are not
/// empty. Requires: the GIL.
std::vector<std::pair<const char*, pybind11::object>> hooks_of_all_modules();

}  // namespace diptych::python
