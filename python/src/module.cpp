// diptych._core: what Python sees of the library.
#include <ATen/core/Tensor.h>

#include "bindings.h"
#include "errors.h"
#include "locations.h"

PYBIND11_MODULE(_core, module) {
  using namespace diptych::python;
  module.doc() = "Forward and backward graphs of functions on torch tensors.";
  bind_errors(module);
  bind_options(module);
  bind_graph(module);
  bind_signature(module);
  bind_pair(module);
  bind_native(module);  // before whoever returns its classes
  bind_aot(module);
  bind_asked_values(module);
  bind_hops(module);
  bind_open_numbers(module);
  bind_host_generators(module);
  bind_routed_methods(module);
  bind_routed_subscripts(module);
  bind_checkpoint(module);
  bind_backward_capture(module);
  bind_files(module);
  bind_device_step(module);
  bind_modes();
  bind_backward_reads();
  bind_hook_graphs();
  watch_attributes();
  tell_locations();
}
