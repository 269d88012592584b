#include "diptych/backward/backward_capture.h"

#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_cpp_function.h>

#include <memory>
#include <string>
#include <vector>

#include "bindings.h"
#include "diptych/backward/current_node.h"
#include "diptych/backward/run_backend.h"
#include "diptych/backward/run_key.h"
#include "diptych/graph/graph.h"
#include "diptych/trace/scope.h"
#include "function.h"

namespace diptych::python {
namespace {

/// A context manager that holds a guard, such as a scope. Requires: entered and left on one thread.
template <class Guard, class... Arguments>
class Context {
 public:
  explicit Context(Arguments... arguments) : arguments_(std::move(arguments)...) {}
  void enter() {
    std::apply([this](const auto&... arguments) { guard_.emplace_back(std::make_unique<Guard>(arguments...)); },
               arguments_);
  }
  void exit() { guard_.pop_back(); }

 private:
  std::tuple<Arguments...> arguments_;
  std::vector<std::unique_ptr<Guard>> guard_;
};

template <class C>
py::class_<C> bind_context(py::module_& module, const char* name, const char* doc) {
  return py::class_<C>(module, name, doc)
      .def("__enter__",
           [](py::object self) {
             self.cast<C&>().enter();
             return self;
           })
      .def("__exit__", [](C& self, const py::args&) { self.exit(); });
}

/// A BackwardCapture whose statistics and graphs can be read even after it has been left.
class Capture {
 public:
  explicit Capture(backward_capture::Options options) : options_(std::move(options)) {
    detail::run_backend(options_.backend);
  }
  void enter() { guards_.push_back(std::make_unique<BackwardCapture>(options_)); }
  void exit() {
    last_ = guards_.back()->stats();
    last_graphs_ = guards_.back()->graphs();
    guards_.pop_back();
  }
  backward_capture::Statistics stats() const { return guards_.empty() ? last_ : guards_.back()->stats(); }
  std::vector<NativeGraph> native_graphs() const {
    return (guards_.empty() ? last_graphs_ : guards_.back()->graphs()).native_graphs();
  }

 private:
  backward_capture::Options options_;
  std::vector<std::unique_ptr<BackwardCapture>> guards_;
  backward_capture::Statistics last_;
  detail::RunGraphs last_graphs_;
};

/// A compiler of Python's, whose graphs are found again as long as it lives.
struct RunCompiler {
  std::shared_ptr<const detail::RunBackend> made;
};

backward_capture::Options options_from(std::string backend, const RunCompiler* compiler, bool strict) {
  return {std::move(backend), compiler != nullptr ? compiler->made : nullptr, strict};
}

// Takes the GIL while nodes are asked what they hold: hooks of saved tensors, and what they packed, are Python's
// objects.
std::shared_ptr<void> interpreter_lock() { return std::make_shared<py::gil_scoped_acquire>(); }

}  // namespace

void bind_backward_capture(py::module_& module) {
  module.def(
      "current_autograd_node",
      [] {
        const auto node = detail::CurrentNode::get();
        if (!node) return py::object(py::none());
        return py::reinterpret_steal<py::object>(torch::autograd::functionToPyObject(node));
      },
      "The autograd node that this thread evaluates, in a captured backward as in the engine; None if there is none.");
  using namespace backward_capture;
  // These calls release the GIL: a thread that traces a backward run may hold the cache while it waits for the GIL.
  using WithoutLock = py::call_guard<py::gil_scoped_release>;
  detail::set_asking_guard(interpreter_lock);
  py::class_<Statistics>(module, "BackwardStatistics", "Counters of backward runs.")
      .def_readonly("captures", &Statistics::captures, "Graphs made.")
      .def_readonly("hits", &Statistics::hits, "Runs that a cached graph served.")
      .def_readonly("eager", &Statistics::eager, "Runs that autograd's engine did because no graph can stand for them.")
      .def_readonly("size_checks", &Statistics::size_checks,
                    "Hits that were traced because a dynamic graph saw their sizes for the first time.")
      .def_readonly("misses", &Statistics::misses, "Why each captured run found no graph, in order.")
      .def_readonly("misses_by_reason", &Statistics::misses_by_reason, "The number of misses by kind of reason.")
      .def_readonly("eager_by_reason", &Statistics::eager_by_reason, "Why autograd's engine did runs, with counts.");
  py::class_<RunCompiler>(module, "BackwardCompiler", "A compiler of one's own for backward passes.")
      .def(py::init([](const py::object& compiler) { return RunCompiler{compiler_of(compiler_from(compiler))}; }),
           py::arg("compiler"));
  bind_context<Capture>(module, "BackwardCapture", R"(While entered, backward passes that this thread
starts run through a captured graph of the whole pass, hooks and the accumulation of gradients among its nodes. The
backend computes what stands between nodes that run live; the innermost capture's is used.)")
      .def(py::init([](std::string backend, const RunCompiler* compiler, bool strict) {
             return std::make_unique<Capture>(options_from(std::move(backend), compiler, strict));
           }),
           py::arg("backend") = Options().backend, py::arg("compiler") = py::none(), py::arg("strict") = false)
      .def("stats", &Capture::stats, "The counters of this thread's runs since the capture was last entered.")
      .def("native_graphs", &Capture::native_graphs, WithoutLock(),
           "What backend \"native\" made of the graphs of these runs, the most recent first, as far as they are "
           "cached.");
  bind_context<Context<Scope, std::string>>(module, "Scope",
                                            "The name of the graphs that are traced while it is entered.")
      .def(py::init<std::string>(), py::arg("name"));
  module.def(
      "enable_backward_capture",
      [](std::string backend, const RunCompiler* compiler, bool strict) {
        enable(options_from(std::move(backend), compiler, strict));
      },
      "Like BackwardCapture, for all threads and until it is disabled; called again, it changes the options.",
      py::arg("backend") = Options().backend, py::arg("compiler") = py::none(), py::arg("strict") = false);
  module.def("disable_backward_capture", &disable);
  module.def("backward_statistics", &statistics, WithoutLock(), "The counters of all threads since the last reset.");
  module.def("reset_backward_capture", &reset, WithoutLock(), "Discards all graphs and the process's counters.");
  module.def("native_backward_graphs", &native_graphs, WithoutLock(),
             "What backend \"native\" made of all graphs that are cached, the most recently used first.");
  module.def("last_backward_graph", &last_graph, "The graph of this thread's last run.");
}

}  // namespace diptych::python
