#include "diptych/tree/signature.h"

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/graph/names.h"

namespace diptych::python {

using namespace detail;

void bind_signature(py::module_& module) {
  py::class_<SlotInfo>(module, "SlotInfo", "A slot and what it holds.")
      .def_property_readonly(
          "path", [](const SlotInfo& info) { return info.slot.path; }, "As Slot.path.")
      .def_property_readonly(
          "kind", [](const SlotInfo& info) { return std::string(slot_kind_name(info.slot.kind)); }, "As Slot.kind.")
      .def_readonly("meta", &SlotInfo::meta, "Its TensorMeta; None for an absent tensor.")
      .def("__repr__", [](const SlotInfo& info) {
        return fmt::format("{} : {}", info.slot.path, info.meta ? type_string(*info.meta) : "none");
      });
  py::class_<Signature>(module, "Signature", "What each slot of a pair's graphs holds. Slots never move.")
      .def_property_readonly("forward_inputs", &Signature::forward_inputs, "Arguments, then free variables.")
      .def_property_readonly("forward_outputs", &Signature::forward_outputs,
                             "The user's outputs, new values of inputs that are changed in place, residuals.")
      .def_property_readonly("backward_inputs", &Signature::backward_inputs,
                             "Residuals, then a tangent for each differentiable forward output.")
      .def_property_readonly("backward_outputs", &Signature::backward_outputs,
                             "A gradient for each forward input; None where none flows.")
      .def_property_readonly("num_arguments", &Signature::num_arguments, "Forward inputs that are not free variables.")
      .def_property_readonly("num_outputs", &Signature::num_outputs, "Forward outputs that are the user's.")
      .def_property_readonly("free_variables", &Signature::free_variables,
                             "Paths of the captured tensors, in the order of their slots.")
      .def_property_readonly("residuals", &Signature::residuals, "Paths of what the forward saves for the backward.")
      .def_property_readonly("mutated", &Signature::mutated, "Paths of the inputs that a call changes in place.")
      .def_property_readonly("differentiable_outputs", &Signature::differentiable_outputs,
                             "Indices of the forward outputs, changed inputs included, that have a tangent slot.")
      .def("index_of_input", &Signature::index_of_input, py::arg("path"),
           "The index of the forward input of that path. Errors: UserError names the nearest paths.")
      .def("index_of_output", &Signature::index_of_output, py::arg("path"),
           "The index of the user's output of that path. Errors: UserError names the nearest paths.")
      .def("gradient_of", &Signature::gradient_of, py::arg("path"),
           R"(The index of the backward output that is the gradient of that forward input.

Errors: UserError if there is no such input (names the nearest), or no such gradient (says why).)")
      .def("has_gradient", &Signature::has_gradient, py::arg("path"),
           "Whether a gradient flows to that forward input; if not, its gradient is None. Errors: as gradient_of().")
      .def("alias_text", &Signature::alias_text, py::arg("output"),
           "\"output 2 is a view of x\"; empty for an output that aliases nothing.")
      .def("__str__", &Signature::str)
      .def("__repr__", &Signature::str);
}

}  // namespace diptych::python
