#include "diptych/pair/pair.h"

#include "bindings.h"
#include "diptych/pair/pair_call.h"
#include "diptych/pair/pair_stablehlo.h"
#include "diptych/pair/spec.h"
#include "function.h"
#include "host_watch.h"
#include "tensors.h"

namespace diptych::python {
namespace {

Pair capture_python(const AotOptions& options, const py::object& function, const py::args& args,
                    const py::kwargs& kwargs) {
  const Arguments arguments(args, kwargs, parameter_names(function), Handle(function));
  const Function callable(function);
  HostRefusal watch("capture", function);
  Pair pair = without_gil([&] { return capture_with(options, callable, arguments); });
  watch.finish();
  return pair;
}

}  // namespace

void bind_pair(py::module_& module) {
  py::class_<StableHlo>(module, "StableHlo", "The two graphs of a pair as StableHLO modules: texts.")
      .def_readonly("forward", &StableHlo::forward, "The forward graph's module.")
      .def_readonly("backward", &StableHlo::backward, "The backward graph's module.");
  py::class_<Pair>(module, "Pair", R"(The forward and the backward graph of a function.

forward: (arguments, free variables) -> (outputs, new values of mutated inputs, residuals).
backward: (residuals, tangents) -> (one gradient per forward input, none where nothing flows).)")
      .def_readonly("forward", &Pair::forward, "The forward Graph.")
      .def_readonly("backward", &Pair::backward, "The backward Graph.")
      .def_readonly("signature", &Pair::signature, "What each slot of both graphs holds.")
      .def_readonly("free_variables", &Pair::free_variables, "The captured tensors, in the order of their slots.")
      .def(
          "forward_call",
          [](const Pair& pair, const MaybeTensors& arguments) {
            auto result = without_gil([&] { return pair.forward_call(tensors_from(arguments)); });
            return py::make_tuple(result.outputs, result.residuals);
          },
          py::arg("arguments"), R"(Runs the forward graph on plain values: no autograd, nothing is mutated.

arguments: the flattened arguments, with or without the free variables behind them.
Returns (outputs, residuals).)")
      .def(
          "backward_call",
          [](const Pair& pair, const MaybeTensors& residuals, const MaybeTensors& tangents) {
            return without_gil([&] { return pair.backward_call(tensors_from(residuals), tensors_from(tangents)); });
          },
          py::arg("residuals"), py::arg("tangents"), "Runs the backward graph; the gradient is None where none flows.")
      .def("code", &Pair::code, "Both graphs as text.")
      .def("table", &Pair::table, "Both graphs as tables.")
      .def("html", &Pair::html, "One page that draws the pair; needs no network.")
      .def("explain", &Pair::explain,
           "The residuals, with their bytes, the nodes that make them and the nodes that use them.")
      .def("stablehlo", py::overload_cast<const Pair&>(&stablehlo), py::call_guard<py::gil_scoped_release>(),
           "Both graphs as StableHLO modules. Errors: UserError as Graph.stablehlo().")
      .def("__str__", &Pair::code);
  module.def(
      "spec",
      [](const std::vector<int64_t>& sizes, at::ScalarType dtype, at::Device device) {
        return spec(sizes, dtype, device);
      },
      py::arg("sizes"), py::arg("dtype"), py::arg("device"), "A tensor without memory: see diptych.spec().");
  module.def("spec_like", &spec_like, py::arg("like"), py::arg("device"),
             "The spec of a tensor's sizes, strides, dtype and requires_grad, on a device.");
  module.def(
      "type_of", [](const at::Tensor& tensor) { return type_string(TensorMeta::of(tensor)); }, py::arg("tensor"),
      "The tensor's type as a graph's text has it: \"f32[2,3]@cuda:0\".");
  module.def("capture_with", &capture_python,
             "Captures function(*args, **kwargs) and returns its Pair. No kernel runs, and no argument changes.");
  module.def(
      "call_pair",
      [](const Pair& pair, const MaybeTensors& arguments) {
        return without_gil([&] { return call_pair(pair, tensors_from(arguments)); });
      },
      py::arg("pair"), py::arg("arguments"),
      R"(Calls the captured function on its flattened arguments; returns its outputs.

Values are those of the forward graph, gradients, to any order, those of the backward graph; inputs that the function
changes are changed. In eager each differentiable call looks at the graphs anew; inside aot_function once.)");
}

}  // namespace diptych::python
