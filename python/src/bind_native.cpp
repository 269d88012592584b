// What backend "native" made of graphs.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/native/call/kernel_check.h"
#include "diptych/native/native_graph.h"
#include "diptych/native/report/check_kernel_file.h"

namespace diptych::python {
namespace {

using ReleaseGil = py::call_guard<py::gil_scoped_release>;

/// TimeKernels for a with statement.
struct TimingBlock {
  std::optional<TimeKernels> timing;
};

void bind_kernel(py::module_& module) {
  py::class_<NativeKernel>(module, "NativeKernel", "A group of nodes that one kernel computes.")
      .def_property_readonly("name", &NativeKernel::name, "The name that profilers show.")
      .def_property_readonly("nodes", &NativeKernel::nodes, "The fused nodes, as a Graph of their own.")
      .def_property_readonly("problem", &NativeKernel::problem,
                             "Why the interpreter runs the nodes; empty if a kernel does.")
      .def(
          "code", &NativeKernel::code,
          "What it computes: loads, operations, reductions and stores over an iteration space. Empty without a kernel.")
      .def("llvm", &NativeKernel::llvm, ReleaseGil(), "Its LLVM IR.")
      .def("assembly", &NativeKernel::assembly, ReleaseGil(), "Its assembly for this machine.")
      .def_property_readonly(
          "bytes_read", [](const NativeKernel& kernel) { return kernel.work().bytes_read; },
          "The bytes of memory that a call reads, each once: counted, not measured.")
      .def_property_readonly(
          "bytes_written", [](const NativeKernel& kernel) { return kernel.work().bytes_written; },
          "The bytes that a call writes.")
      .def_property_readonly(
          "flops", [](const NativeKernel& kernel) { return kernel.work().flops; },
          "Operations on floats of a call; a function such as exp is one.")
      .def_property_readonly("timed_calls", &NativeKernel::timed_calls, "How many calls time_kernels() has timed.")
      .def_property_readonly("median_us", &NativeKernel::median_us,
                             "The median time of the last thousand of them, in microseconds.")
      .def(
          "save",
          [](const NativeKernel& kernel, const std::vector<at::Tensor>& inputs, const std::string& name) {
            detail::write_kernel_file(kernel.nodes(), inputs, name);
          },
          py::arg("inputs"), py::arg("name"),
          R"(Writes its nodes to name.graph and inputs to name.safetensors, for `diptych check-kernel name.graph`.)")
      .def("__str__", &NativeKernel::code)
      .def("__repr__", [](const NativeKernel& kernel) {
        return fmt::format("<NativeKernel {} of {} nodes>", kernel.name(), kernel.nodes().nodes().size());
      });
}

}  // namespace

void bind_native(py::module_& module) {
  bind_kernel(module);
  py::class_<NativeGraph>(module, "NativeGraph", "What backend \"native\" made of one graph.")
      .def_property_readonly("name", &NativeGraph::name, "forward or backward.")
      .def_property_readonly("graph", &NativeGraph::graph,
                             "The Graph that runs, with a hop.fused node for each kernel.")
      .def_property_readonly("kernels", &NativeGraph::kernels, "Its kernels, in the order of their nodes.")
      .def("code", &NativeGraph::code, "The code() of its kernels.")
      .def("table", &NativeGraph::table, ReleaseGil(), R"(One row per kernel in aligned columns.

Its nodes, bytes and flops; and, once time_kernels() has timed calls, the median time and the share of the machine's
memory bandwidth or floating-point peak, whichever is greater.)")
      .def("html", &NativeGraph::html, "One HTML page that draws the graph, with the nodes of each kernel in its box.")
      .def("explain", &NativeGraph::explain, ReleaseGil(),
           "What each kernel fuses, and why what goes from one to another is not fused.")
      .def("__str__", &NativeGraph::code)
      .def("__repr__", [](const NativeGraph& graph) {
        return fmt::format("<NativeGraph {} of {} kernels>", graph.name(), graph.kernels().size());
      });
  py::class_<TimingBlock>(module, "TimeKernels", "While a with block of one runs, calls of native kernels are timed.")
      .def(py::init<>())
      .def("__enter__", [](TimingBlock& block) { block.timing.emplace(); })
      .def("__exit__", [](TimingBlock& block, const py::args&) { block.timing.reset(); });
  module.def(
      "check_kernel_file",
      [](const std::string& path) {
        const auto report = detail::check_kernel_file(path);
        return std::pair(report.differs, report.text);
      },
      py::arg("path"), ReleaseGil(),
      R"(Runs the kernel that a check of kernels wrote to a file, beside the interpreter and the reference evaluator.

Returns whether they differ, and a text that says how far. Errors: UserError for a file that can't be read, or where no
kernel can be made.)");
}

}  // namespace diptych::python
