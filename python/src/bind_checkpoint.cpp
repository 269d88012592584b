// Checkpoint regions and their policies.
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/hops/checkpoint.h"
#include "function.h"

namespace diptych::python {
namespace {

py::object call_checkpointed(const py::object& function, const CheckpointPolicy& policy, const py::args& args,
                             const py::kwargs& kwargs) {
  const Arguments arguments(args, kwargs, parameter_names(function), Handle(py::none()));
  const auto checkpointed = checkpoint(Function(function), policy);
  return to_python(without_gil([&] { return checkpointed(arguments); }));
}

}  // namespace

void bind_checkpoint(py::module_& module) {
  py::class_<CheckpointPolicy>(module, "CheckpointPolicy", "What a checkpointed function saves for the backward.")
      .def_readonly("name", &CheckpointPolicy::name, "Its name in graphs.")
      .def("__repr__", [](const CheckpointPolicy& policy) { return policy.name; });
  module.def("save_nothing", &save_nothing, "Recomputes everything; only the inputs are saved.");
  module.def("save_everything_but_pointwise", &save_everything_but_pointwise,
             "Saves what is expensive to recompute and recomputes the rest.");
  module.def("save_matrix_products", &save_matrix_products, "Saves matrix products, convolutions and attention.");
  module.def("save_names", &save_names, py::arg("names"), "Saves the values that name_residual() gave these names.");
  module.def("save_within_budget", &save_within_budget, py::arg("fraction"),
             "Saves at most this fraction (0 to 1) of the bytes that eager saves.");
  module.def("name_residual", &name_residual, py::arg("tensor"), py::arg("name"),
             "Names the tensor's value for save_names(), and returns the tensor.");
  module.def("call_checkpointed", &call_checkpointed);
}

}  // namespace diptych::python
