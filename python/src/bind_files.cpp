// Graphs, pairs and tensors in files.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/graph/file.h"
#include "diptych/graph/safetensors.h"
#include "diptych/pair/pair_file.h"
#include "diptych/pair/pair_parameters.h"
#include "diptych/pair/pair_stablehlo.h"

namespace diptych::python {

using namespace detail;

void bind_files(py::module_& module) {
  module.def("make_pair", &make_pair, py::arg("forward"), py::arg("backward"),
             py::arg("free_variables") = std::vector<at::Tensor>(),
             "Makes a pair of a forward and a backward graph whose slots match, as those of a captured pair do, also "
             "after a rewrite.");
  module.def("save_pair", py::overload_cast<const Pair&, const std::string&>(&save), py::arg("pair"), py::arg("path"));
  module.def("load_pair", &load_pair, py::arg("path"));
  module.def("save_with_tensors", &save_with_tensors, py::arg("pair"), py::arg("tensors"), py::arg("path"));
  module.def("load_with_tensors", &load_with_tensors, py::arg("path"));
  module.def("tensors_of_argument", &tensors_of_argument, py::arg("signature"), py::arg("argument"), py::arg("tensors"),
             py::arg("prefix") = "",
             R"(The tensors that one argument of a pair is made of, in the order of their slots.

For the argument "params" the slot "params.block.weight" takes the tensor `prefix` + "block.weight"; names without the
prefix are the caller's. Errors: UserError names a tensor that is missing, one of another dtype or other sizes, and one
that no slot takes.)");
  module.def("save_tensors", &save_tensors, py::arg("tensors"), py::arg("path"),
             "Writes tensors by name to a safetensors file, whole or not at all.");
  module.def("load_tensors", &load_tensors, py::arg("path"), "Reads a safetensors file.");
  module.def("export_stablehlo", &export_stablehlo, py::arg("pair"), py::arg("folder"), py::arg("parameters"),
             py::call_guard<py::gil_scoped_release>());
  module.def(
      "write_file", [](const std::string& path, const std::string& text) { write_file_atomically(path, {text}); },
      py::arg("path"), py::arg("text"), "Writes a file whole or not at all.");
}

}  // namespace diptych::python
