#include <pybind11/functional.h>

#include "bindings.h"
#include "diptych/backend/background_compile.h"
#include "diptych/backends/builtin_backends.h"
#include "diptych/compile/warning.h"
#include "function.h"
#include "tensors.h"

namespace diptych::python {
namespace {

/// A Python callable that takes a list of tensors and returns a list of tensors, with None for no tensor.
class PythonExecutable final : public Executable {
 public:
  explicit PythonExecutable(py::object callable) : callable_(std::move(callable)) {}
  std::vector<at::Tensor> run(std::vector<at::Tensor>&& inputs) const override {
    const py::gil_scoped_acquire gil;
    py::list given;
    for (at::Tensor& input : inputs) given.append(py::cast(std::exchange(input, at::Tensor())));
    return tensors_from(callable_.get()(std::move(given)).cast<MaybeTensors>());
  }

 private:
  Handle callable_;
};

}  // namespace

Compiler compiler_from(const py::object& callable) {
  if (callable.is_none()) return {};
  return [handle = Handle(callable)](const Graph& graph) -> std::shared_ptr<const Executable> {
    const py::gil_scoped_acquire gil;
    return std::make_shared<PythonExecutable>(handle.get()(graph));
  };
}

namespace {

// Lets go of the GIL, if this thread has it, until the result is dropped.
std::shared_ptr<void> release_gil() {
  if (PyGILState_Check() == 0) return nullptr;
  return std::make_shared<py::gil_scoped_release>();
}

void warn_in_python(const std::string& text) {
  const py::gil_scoped_acquire gil;
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) != 0) throw py::error_already_set();
}

AotOptions make_options(std::string name, std::string backend, std::string draws,
                        const std::optional<std::string>& partition, std::vector<std::string> decompositions,
                        bool dynamic, bool check_sizes, size_t cache_limit, size_t path_limit, bool eager_fallback,
                        size_t check, std::optional<double> check_tolerance, bool check_kernels, bool async_compile,
                        const py::object& forward_compiler, const py::object& backward_compiler,
                        const py::object& inference_compiler) {
  AotOptions options;
  options.name = std::move(name);
  options.backend = std::move(backend);
  options.draws = std::move(draws);
  if (partition) options.partition = partitioner_by_name(*partition);
  options.decompositions = std::move(decompositions);
  options.dynamic = dynamic;
  options.check_sizes = check_sizes;
  options.check_constants = 0;  // guards of Python compare what a function reads
  options.cache_limit = cache_limit;
  options.path_limit = path_limit;
  options.eager_fallback = eager_fallback;
  options.check = check;
  options.check_tolerance = check_tolerance;
  options.check_kernels = check_kernels;
  options.async_compile = async_compile;
  options.argument_names = {""};  // the one C++ argument holds all of Python's, which have the names
  options.forward_compiler = compiler_from(forward_compiler);
  options.backward_compiler = compiler_from(backward_compiler);
  options.inference_compiler = compiler_from(inference_compiler);
  return options;
}

}  // namespace

void bind_options(py::module_& module) {
  py::class_<AotOptions>(module, "Options", R"doc(What a caller may choose about how a function is captured and run.

name: names the function in logs, graphs and errors.
backend: which built-in backend compiles the graphs, see backend_names(); default_backend() if it is left out.
draws: who draws random numbers: "host" draws eager's, draw for draw; "device" (backend "xla" alone) has programs draw for
themselves, from a seed that each run draws from torch's generator.
partition: what the forward saves for the backward: "default" (what eager saves), "min_cut", "hidden_min_cut" or
"memory_budget(0.5)"; None: "hidden_min_cut" by backend "native", else "default".
decompositions: operators to decompose before partitioning ("aten.gelu"), or ["all"].
dynamic: whether sizes that change become dynamic.
check_sizes: whether a dynamic capture is compared with a trace at each size that it meets for the first time, so that
branches on sizes are as in eager; False trusts a range of sizes that was traced at its ends and at likely sizes.
cache_limit: how many captures are kept.
path_limit: how many captures may differ only in values that the function asks for on the host (item(), a branch on a tensor, a
mask as an index); where a call would need one more, calls of its kind run the function itself. 0: asking is a UserError.
eager_fallback: whether a call of which no graph can be made runs the function itself, as later calls of its kind do, with one
warning that says why and where; False raises a UserError. aot_module() and torch.compile(backend="diptych") set it.
check: every check-th call also runs the original function, on copies, and compares what both have done, gradients
included; the first difference is a UserError. 0: as the environment variable DIPTYCH_CHECK says, or never.
check_tolerance: how far values may differ, absolute and relative to a tensor's largest; 0 for bit for bit, None for 1e-4 of
float32 and likewise for other dtypes.
check_kernels: whether the results of each native kernel are compared with the interpreter's; the first that differs is an
InternalError, which names the file that `diptych check-kernel` runs alone.
async_compile: whether graphs are compiled in the background, while calls run the interpreter.
forward_compiler, backward_compiler, inference_compiler: callables that take a Graph and return a callable from a list of
tensors to a list of tensors, in place of the backend.)doc")
      .def(py::init(&make_options), py::kw_only(), py::arg("name") = "aot", py::arg("backend") = default_backend(),
           py::arg("draws") = "host", py::arg("partition") = py::none(),
           py::arg("decompositions") = std::vector<std::string>(), py::arg("dynamic") = false,
           py::arg("check_sizes") = true, py::arg("cache_limit") = 64, py::arg("path_limit") = 16,
           py::arg("eager_fallback") = false, py::arg("check") = 0, py::arg("check_tolerance") = py::none(),
           py::arg("check_kernels") = false, py::arg("async_compile") = false, py::arg("forward_compiler") = py::none(),
           py::arg("backward_compiler") = py::none(), py::arg("inference_compiler") = py::none())
      .def_readonly("name", &AotOptions::name, "The name of the function in logs, graphs and errors.")
      .def_readonly("backend", &AotOptions::backend, "The built-in backend.")
      .def_readonly("draws", &AotOptions::draws, "Who draws random numbers, the host or the device.")
      .def_property_readonly(
          "partition",
          [](const AotOptions& options) {
            return options.partition ? std::optional(options.partition->name) : std::nullopt;
          },
          "The partitioner that splits the joint graph; None for the backend's.")
      .def_readonly("dynamic", &AotOptions::dynamic, "Whether sizes that change become dynamic.")
      .def_readonly("check_sizes", &AotOptions::check_sizes,
                    "Whether each new size is traced before a dynamic capture serves it.")
      .def_readonly("cache_limit", &AotOptions::cache_limit, "The greatest number of captures in the cache.")
      .def_readonly("path_limit", &AotOptions::path_limit,
                    "The greatest number of captures that differ only in values that the function asks for.")
      .def_readonly("eager_fallback", &AotOptions::eager_fallback,
                    "Whether a call of which no graph can be made runs the function itself.")
      .def_readonly("check", &AotOptions::check, "One call in this many is compared with the original function.")
      .def_readonly("check_tolerance", &AotOptions::check_tolerance, "The tolerances of a check.")
      .def_readonly("check_kernels", &AotOptions::check_kernels,
                    "Whether native kernels are compared with the interpreter.")
      .def_readonly("async_compile", &AotOptions::async_compile, "Whether graphs are compiled in the background.");
  diptych::detail::set_release_host(&release_gil);
  diptych::detail::set_warning_sink(&warn_in_python);
  module.def("wait_for_compilers", &wait_for_compilers, py::call_guard<py::gil_scoped_release>(),
             "Waits until whatever is compiled in the background is ready: see async_compile of Options.");
  // While Python still works, since compilers may call operators that are written in it.
  py::module_::import("atexit").attr("register")(module.attr("wait_for_compilers"));
  module.def("backend_names", &backend_names, "The names that Options(backend=...) takes in this build.");
  module.def("default_backend", &default_backend,
             "The backend of whoever names none: what the environment variable DIPTYCH_BACKEND said at the start, or "
             "'native'.");
}

}  // namespace diptych::python
