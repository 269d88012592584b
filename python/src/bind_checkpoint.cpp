// Checkpoint regions and their policies.
#include <ATen/ops/empty_strided.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/hops/checkpoint.h"
#include "diptych/trace/trace_guard.h"
#include "function.h"
#include "tensors.h"

namespace diptych::python {
namespace {

py::object call_checkpointed(const py::object& function, const CheckpointPolicy& policy, const py::args& args,
                             const py::kwargs& kwargs) {
  const Arguments arguments(args, kwargs, parameter_names(function), Handle(py::none()));
  const auto checkpointed = checkpoint(Function(function), policy);
  return to_python(without_gil([&] { return checkpointed(arguments); }));
}

// The operands of a node for a rule in Python: tensors on the device "meta", and None for what is no tensor.
py::list tensors_of(const Graph& graph, const Node& node) {
  const diptych::detail::PauseTraceGuard real;
  py::list found;
  for (const Operand& operand : node.operands) {
    const auto* const value = std::get_if<diptych::Value>(&operand);
    if (value == nullptr || !*value) {
      found.append(py::none());
      continue;
    }
    const TensorMeta& meta = graph.meta(*value);
    const auto options = at::TensorOptions(meta.dtype).device(at::kMeta);
    found.append(py::cast(at::empty_strided(meta.size_hints(), meta.stride_hints(), options)));
  }
  return found;
}

// A policy that asks decide(name of the operator, its operands) whether a node is saved.
CheckpointPolicy save_by_rule(std::string name, py::object decide) {
  const auto rule = [decide = Handle(std::move(decide))](const Graph& graph, const Node& node) {
    const py::gil_scoped_acquire gil;
    const bool is_saved = decide.get()(node.op.name(), tensors_of(graph, node)).cast<bool>();
    return is_saved ? Rematerialize::kSave : Rematerialize::kRecompute;
  };
  return {std::move(name), rule};
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
  module.def("save_by_rule", &save_by_rule, py::arg("name"), py::arg("decide"),
             "Saves what decide(name of the operator, its operands as meta tensors) says.");
  module.def("name_residual", &name_residual, py::arg("tensor"), py::arg("name"),
             "Names the tensor's value for save_names(), and returns the tensor.");
  module.def("call_checkpointed", &call_checkpointed);
}

}  // namespace diptych::python
