#include "diptych/tree/signature.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/graph/names.h"

namespace diptych::python {

void bind_signature(py::module_& module) {
  py::class_<SlotInfo>(module, "SlotInfo", "A slot and what stands in it.")
      .def_property_readonly("path", [](const SlotInfo& info) { return info.slot.path; })
      .def_property_readonly("kind", [](const SlotInfo& info) { return std::string(slot_kind_name(info.slot.kind)); })
      .def_readonly("meta", &SlotInfo::meta, "None where nothing stands.")
      .def("__repr__", [](const SlotInfo& info) {
        return fmt::format("{} : {}", info.slot.path, info.meta ? type_string(*info.meta) : "none");
      });
  py::class_<Signature>(module, "Signature", "What stands in each slot of a pair's graphs. Slots never move.")
      .def_property_readonly("forward_inputs", &Signature::forward_inputs)
      .def_property_readonly("forward_outputs", &Signature::forward_outputs)
      .def_property_readonly("backward_inputs", &Signature::backward_inputs)
      .def_property_readonly("backward_outputs", &Signature::backward_outputs)
      .def_property_readonly("num_arguments", &Signature::num_arguments)
      .def_property_readonly("num_outputs", &Signature::num_outputs)
      .def_property_readonly("free_variables", &Signature::free_variables)
      .def_property_readonly("residuals", &Signature::residuals)
      .def_property_readonly("mutated", &Signature::mutated)
      .def_property_readonly("differentiable_outputs", &Signature::differentiable_outputs)
      .def("index_of_input", &Signature::index_of_input, py::arg("path"))
      .def("index_of_output", &Signature::index_of_output, py::arg("path"))
      .def("gradient_of", &Signature::gradient_of, py::arg("path"))
      .def("has_gradient", &Signature::has_gradient, py::arg("path"))
      .def("alias_text", &Signature::alias_text, py::arg("output"),
           "\"output 2 is a view of x\"; empty for an output that aliases nothing.")
      .def("__str__", &Signature::str)
      .def("__repr__", &Signature::str);
}

}  // namespace diptych::python
