// Functions that are compiled ahead of their backward.
#include "diptych/compile/aot.h"

#include <pybind11/stl.h>

#include "bindings.h"
#include "diptych/compile/gradients.h"
#include "diptych/trace/fake_tensor.h"
#include "function.h"

namespace diptych::python {
namespace {

/// A compiled function that Python calls with positional and keyword arguments.
class Compiled {
 public:
  Compiled(const py::object& function, const AotOptions& options)
      : callable_(function), names_(parameter_names(function)), aot_(Function(function), options) {}

  py::object call(const py::args& args, const py::kwargs& kwargs) const {
    const Arguments arguments(args, kwargs, names_, callable_);
    return to_python(without_gil([&] { return aot_(arguments); }));
  }
  const Aot<Function>& aot() const { return aot_; }

 private:
  Handle callable_;
  std::shared_ptr<const Arguments::Names> names_;
  Aot<Function> aot_;
};

/// Gradients with respect to the first argument.
class CompiledGradients {
 public:
  CompiledGradients(const py::object& function, const AotOptions& options)
      : callable_(function),
        names_(parameter_names(function)),
        aot_(value_and_grad(TensorFunction{Function(function), "value_and_grad"}, named(options))) {}

  py::object call(const py::object& first, const py::args& args, const py::kwargs& kwargs) const {
    auto rest = std::make_shared<Arguments::Names>(names_->begin() + !names_->empty(), names_->end());
    const Arguments arguments(args, kwargs, std::move(rest), callable_);
    const Argument parameters(first);
    const auto [value, gradients] = without_gil([&] { return aot_(parameters, arguments); });
    return py::make_tuple(py::cast(value), to_python(gradients));
  }

 private:
  AotOptions named(AotOptions options) const {
    options.argument_names = {names_->empty() ? "arg0" : names_->front(), ""};
    return options;
  }

  Handle callable_;
  std::shared_ptr<const Arguments::Names> names_;
  Aot<detail::ValueAndGrad<TensorFunction>> aot_;
};

std::vector<Graph> forward_graphs(const Compiled& compiled) {
  std::vector<Graph> graphs;
  for (const auto& code : compiled.aot().captures()) graphs.push_back(code->forward_graph());
  return graphs;
}

}  // namespace

void bind_aot(py::module_& module) {
  py::class_<CacheStats>(module, "CacheStats", "What the cache of a compiled function has done so far.")
      .def_readonly("hits", &CacheStats::hits, "Calls that a capture was there for.")
      .def_readonly("misses", &CacheStats::misses, "Calls that made one.")
      .def_readonly("evictions", &CacheStats::evictions,
                    "Captures that were dropped, as there were more than cache_limit.")
      .def_readonly("entries", &CacheStats::entries, "Captures that are kept now.")
      .def_readonly("last_miss", &CacheStats::last_miss, "Why the last miss was one; empty for a first call.");
  py::class_<Compiled>(module, "Aot", "A function that is captured on first use and runs its graphs from then on.")
      .def(py::init<const py::object&, const AotOptions&>(), py::arg("function"), py::arg("options"))
      .def("__call__", &Compiled::call)
      .def(
          "stats", [](const Compiled& self) { return self.aot().stats(); }, "Hits, misses, and why the last was one.")
      .def(
          "clear", [](const Compiled& self) { self.aot().clear(); }, "Forgets every capture.")
      .def("forward_graphs", &forward_graphs, "The forward graphs of the cached captures, most recent first.");
  py::class_<CompiledGradients>(module, "AotGradients", "A function that gives a value and its gradients.")
      .def(py::init<const py::object&, const AotOptions&>(), py::arg("function"), py::arg("options"))
      .def("__call__", &CompiledGradients::call);
  module.def("is_stand_in", &diptych::detail::is_stand_in, py::arg("tensor"),
             "Whether a tensor stands for another one in a trace.");
}

}  // namespace diptych::python
