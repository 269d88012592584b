// Python's modes round a call, and torch's hooks of all modules: what the guards and the door of a compiled function
// know of them.
#pragma once
#include <ATen/PythonTorchFunctionTLS.h>
#include <pybind11/pybind11.h>

#include <string>
#include <utility>
#include <vector>

#include "diptych/tree/tree.h"

namespace diptych::python {

/// The devices of torch.device(...) as a context and of torch.set_default_device(), outermost first. Requires: the GIL.
std::vector<std::string> default_devices();

/// Visits them as constants, where there are any: what a capture makes lies on the innermost.
template <class Visitor>
void visit_default_devices(const Path& path, Visitor& visitor) {
  if (!at::impl::torch_function_mode_enabled()) return;
  for (const std::string& device : default_devices()) visitor.constant(Path(path, "default device"), device);
}

/// What torch.nn.modules.module keeps of the hooks of all modules, by the names of its variables: those that are not
/// empty. Requires: the GIL.
std::vector<std::pair<const char*, pybind11::object>> hooks_of_all_modules();

}  // namespace diptych::python
