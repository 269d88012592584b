// Functions that are compiled ahead of their backward.
#include "diptych/compile/aot.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "bindings.h"
#include "diptych/compile/gradients.h"
#include "diptych/compile/warning.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/transforms.h"
#include "function.h"

namespace diptych::python {

using namespace detail;
namespace {

/// A compiled function that Python calls with positional and keyword arguments.
class Compiled {
 public:
  Compiled(const py::object& function, const AotOptions& options)
      : callable_(function),
        names_(parameter_names(function)),
        name_(options.name),
        falls_back_(options.eager_fallback),
        aot_(Function(function), options) {}

  py::object call(const py::args& args, const py::kwargs& kwargs) const {
    // The function that is traced may be given back what no tree is, as by any other function that it calls.
    if (diptych::detail::runs_inlined()) return callable_.object()(*args, **kwargs);
    Arguments given(args, kwargs, names_, callable_);
    given.takes_carriers = true;
    const Arguments& arguments = given;
    try {
      return to_python(without_gil([&] { return aot_(arguments); }));
    } catch (const UninitializedMet& met) {  // by the guards, so that nothing has run yet
      return to_python(without_gil([&] { return aot_.call_original(met.why(), arguments); }));
    } catch (const NoTree& refusal) {  // likewise; what a capture finds in the results is refused there
      if (!falls_back_) throw;
      if (!warned_->exchange(true)) {
        warn(fmt::format("[{}] runs uncompiled, since no graph can be made of this call: {}", name_, refusal.what()));
      }
      return to_python(without_gil([&] { return aot_.call_original(refusal.what(), arguments); }));
    }
  }
  const Aot<Function>& aot() const { return aot_; }

 private:
  Handle callable_;
  std::shared_ptr<const Arguments::Names> names_;
  std::string name_;
  bool falls_back_;
  std::shared_ptr<std::atomic<bool>> warned_ = std::make_shared<std::atomic<bool>>(false);
  Aot<Function> aot_;
};

py::object value_to_python(const at::Tensor& value) { return py::cast(value); }
py::object value_to_python(const std::pair<at::Tensor, Value>& value) {
  return py::make_tuple(value.first, to_python(value.second));
}

/// A compiled function that returns a value and its gradients with respect to the first argument.
class CompiledGradients {
 public:
  CompiledGradients(const py::object& function, const AotOptions& options, bool has_aux)
      : callable_(function), names_(parameter_names(function)), has_aux_(has_aux) {
    constexpr const char* kRole = "value_and_grad";
    const Function inner(function);
    call_ = has_aux ? compiled(LossFunction{inner, kRole}, named(options))
                    : compiled(TensorFunction{inner, kRole}, named(options));
  }

  py::object call(const py::object& first, const py::args& args, const py::kwargs& kwargs) const {
    auto rest = std::make_shared<Arguments::Names>(names_->begin() + !names_->empty(), names_->end());
    if (diptych::detail::transform_of_levels()) return by_torch(first, args, kwargs);
    return call_(Argument(first), Arguments(args, kwargs, std::move(rest), callable_));
  }

 private:
  using Call = std::function<py::object(const Argument& parameters, const Arguments& rest)>;

  template <class F>
  static Call compiled(F function, const AotOptions& options) {
    return [aot = value_and_grad(std::move(function), options)](const Argument& parameters, const Arguments& rest) {
      const auto [value, gradients] = without_gil([&] { return aot(parameters, rest); });
      return py::make_tuple(value_to_python(value), to_python(gradients));
    };
  }
  // Lets torch.func take the gradients under its transforms, where tensors may be wrapped and batched.
  py::object by_torch(const py::object& first, const py::args& args, const py::kwargs& kwargs) const {
    diptych::detail::note_eager_call("value_and_grad", *diptych::detail::transform_of_levels());
    return py::module_::import("diptych._transforms")
        .attr("value_and_grad")(callable_.get(), has_aux_, first, args, kwargs);
  }
  AotOptions named(AotOptions options) const {
    options.argument_names = {names_->empty() ? "arg0" : names_->front(), ""};
    return options;
  }

  Handle callable_;
  std::shared_ptr<const Arguments::Names> names_;
  bool has_aux_;
  Call call_;
};

std::vector<Graph> forward_graphs(const Compiled& compiled) {
  std::vector<Graph> graphs;
  for (const auto& code : compiled.aot().captures()) graphs.push_back(code->forward_graph());
  return graphs;
}

// Saves the states of Python's own random numbers and of NumPy's; dropping the result restores them.
std::shared_ptr<void> keep_random_states() {
  const py::gil_scoped_acquire gil;
  const Handle restore(py::module_::import("diptych._tree").attr("keep_random_states")());
  const auto put_back = [restore](void*) {
    const py::gil_scoped_acquire held;
    restore.get()();
  };
  return {nullptr, put_back};
}

}  // namespace

void bind_aot(py::module_& module) {
  py::class_<CacheStats>(module, "CacheStats", "The counters of a compiled function's cache.")
      .def_readonly("hits", &CacheStats::hits, "Calls that a cached capture served.")
      .def_readonly("misses", &CacheStats::misses, "Calls that made a capture.")
      .def_readonly("evictions", &CacheStats::evictions,
                    "Captures that were discarded because there were more than cache_limit.")
      .def_readonly("entries", &CacheStats::entries, "Captures in the cache now.")
      .def_readonly("last_miss", &CacheStats::last_miss, "Why the last miss was a miss; empty after a first call.")
      .def_readonly("size_checks", &CacheStats::size_checks,
                    "Hits that were traced because a dynamic capture saw their sizes for the first time.")
      .def_readonly(
          "originals", &CacheStats::originals,
          "Calls that ran the function itself, because of its effects on the host, or of a mode or transform.")
      .def_readonly("last_original", &CacheStats::last_original,
                    "The reason for the last such call; empty if there was none.")
      .def_readonly("original_reasons", &CacheStats::original_reasons,
                    "The number of such calls by reason, for modes and transforms.")
      .def_readonly("refusals", &CacheStats::refusals,
                    "Kinds of call of which no graph can be made, where eager_fallback is set.")
      .def_readonly("checks", &CacheStats::checks, "Calls that were compared with the original function.");
  py::class_<Compiled>(module, "Aot", "A function that is captured at its first call and runs its graphs from then on.")
      .def(py::init<const py::object&, const AotOptions&>(), py::arg("function"), py::arg("options"))
      .def("__call__", &Compiled::call)
      .def(
          "stats", [](const Compiled& self) { return self.aot().stats(); },
          "Hits, misses, and the reason for the last miss.")
      .def(
          "clear", [](const Compiled& self) { self.aot().clear(); }, "Forgets every capture.")
      .def(
          "explain", [](const Compiled& self) { return self.aot().explain(); },
          "The captures in words, with the values that they hold for as a tree.")
      .def("forward_graphs", &forward_graphs, "The forward graphs of the cached captures, most recent first.")
      .def(
          "native_graphs", [](const Compiled& self) { return self.aot().native_graphs(); },
          "What backend \"native\" made of the graphs of these captures, as far as they are compiled.");
  py::class_<CompiledGradients>(module, "AotGradients", "A function that returns a value and its gradients.")
      .def(py::init<const py::object&, const AotOptions&, bool>(), py::arg("function"), py::arg("options"),
           py::arg("has_aux") = false)
      .def("__call__", &CompiledGradients::call);
  module.def(
      "eager_calls", &eager_calls,
      "The number of calls of all compiled functions and operators that ran the original function, by '[who] why'.");
  diptych::detail::set_keep_host_state(&keep_random_states);
  module.def(
      "known_stand_in",
      [](const at::Tensor& tensor) {
        auto* const recorder = diptych::detail::Recorder::current();
        const auto* known = recorder == nullptr ? nullptr : recorder->primal_table().find(tensor);
        return known == nullptr ? tensor : known->stand_in;
      },
      py::arg("tensor"),
      "The stand-in of a tensor that the function which is traced has used; another tensor as it is.");
  module.def("stand_ins_left_behind", &HostWatch::left_behind,
             "The stand-ins of traces that have ended to which something of Python still refers.");
  module.def("is_stand_in", &diptych::detail::is_stand_in, py::arg("tensor"),
             "Whether a tensor is a stand-in for another one in a trace.");
}

}  // namespace diptych::python
