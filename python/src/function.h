// The user's Python functions as C++ functions, which the templates of the library take.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guards/closure.h"
#include "guards/environment.h"
#include "host_watch.h"
#include "modes.h"
#include "value.h"

namespace diptych::python {

using namespace detail;

/// The arguments of one call: positional ones, then keyword ones in the order of the function's parameters.
struct Arguments {
  using Names = std::vector<std::string>;
  /// `names` are those of the function's positional parameters; `callable` is the function that is called.
  Arguments(const py::args& args, const py::kwargs& kwargs, std::shared_ptr<const Names> names, Handle callable);

  std::vector<Argument> positional;
  std::vector<std::pair<std::string, Argument>> keyword;
  /// The places in `keyword` of the arguments that match no named parameter, in the caller's order; empty if that is
  /// the order of `keyword`.
  std::vector<size_t> order;
  std::shared_ptr<const Names> names;
  Handle callable;
  bool takes_carriers = false;  ///< whether tensors may be of any class that wraps calls: see Kind::kCarrier

 private:
  void set_order(const std::vector<std::string>& called);
};

/// Returns the names of a callable's positional parameters; any further positional arguments are called "args.0", ...
std::shared_ptr<const Arguments::Names> parameter_names(py::handle callable);

/// A Python callable. What it throws passes through, except that a UserError which torch turned into a RuntimeError on
/// its way is a UserError again. Threads: any; calls take the GIL.
class Function {
 public:
  explicit Function(py::object callable) : callable_(std::move(callable)) {}

  Value operator()(const Arguments& arguments) const;
  /// Calls it with the first argument given separately.
  Value operator()(const Value& first, const Arguments& rest) const;
  Value operator()(const Value& argument) const;
  Value operator()(const Value& first, const Value& second) const;
  Handle callable() const { return callable_; }
  /// Undoes what an earlier trace of the present watch has left on the host, modules among the arguments included.
  void begin_trace() const {
    if (HostWatch* const watch = HostWatch::current()) watch->begin_trace(callable_.get());
  }
  /// See Note [What a function does on the host].
  std::unique_ptr<CaptureWatch> watch_capture() const { return HostWatch::begin(callable_.get(), true); }

 private:
  Handle callable_;
};

/// Returns the tensor that a result is. Errors: UserError, naming `role`, for something else.
at::Tensor tensor_of(const Value& result, const char* role);

/// A callable that returns one tensor: a loss, or a condition. Errors: UserError, naming `role`, for something else.
struct TensorFunction {
  Function function;
  const char* role;
  void begin_trace() const { function.begin_trace(); }
  std::unique_ptr<CaptureWatch> watch_capture() const { return function.watch_capture(); }
  template <class... A>
  at::Tensor operator()(const A&... arguments) const {
    return tensor_of(function(arguments...), role);
  }
};

/// A callable that returns a tuple of two.
struct PairFunction {
  Function function;
  const char* role;
  template <class... A>
  std::pair<Value, Value> operator()(const A&... arguments) const {
    return pair_of(function(arguments...));
  }

 private:
  std::pair<Value, Value> pair_of(const Value& result) const;
};

/// A callable that returns a loss and what else it computed. Errors: as TensorFunction and PairFunction.
struct LossFunction {
  Function function;
  const char* role;
  void begin_trace() const { function.begin_trace(); }
  std::unique_ptr<CaptureWatch> watch_capture() const { return function.watch_capture(); }
  template <class... A>
  std::pair<at::Tensor, Value> operator()(const A&... arguments) const {
    auto [loss, extras] = PairFunction{function, role}(arguments...);
    return {tensor_of(loss, role), std::move(extras)};
  }
};

/// Returns a result as a Python object, with None for a missing tensor.
py::object to_python(const Value& result);

/// Runs `body` without the GIL.
template <class Body>
auto without_gil(Body&& body) {
  const py::gil_scoped_release release;
  return body();
}

}  // namespace diptych::python

namespace diptych {

template <>
struct Tree<python::Arguments> {
  template <class Object, class Visitor>
  static void visit(Object& arguments, const Path& path, Visitor& visitor) {
    const pybind11::gil_scoped_acquire gil;
    visitor.structure(path, Structure::kTuple, static_cast<int64_t>(arguments.positional.size()));
    python::Visited met;
    const auto visit = [&](auto& argument, const Path& at) {
      python::visit_argument(argument, at, visitor, met, arguments.takes_carriers);
    };
    for (size_t i = 0; i < arguments.positional.size(); ++i) {
      const auto& names = *arguments.names;
      if (i < names.size()) {
        visit(arguments.positional[i], Path(path, names[i]));
      } else {
        const Path rest(path, "args");
        visit(arguments.positional[i], Path(rest, static_cast<int64_t>(i - names.size())));
      }
    }
    visitor.structure(path, Structure::kMap, static_cast<int64_t>(arguments.keyword.size()));
    for (const auto& [name, argument] : arguments.keyword) visitor.key(path, std::string_view(name));
    for (auto& [name, argument] : arguments.keyword) visit(argument, Path(path, std::string_view(name)));
    for (const size_t place : arguments.order) visitor.constant(Path(path, "order"), static_cast<int64_t>(place));
    python::visit_default_devices(path, visitor);
    if constexpr (!detail::replaces_tensors<Visitor>()) {
      python::ClosureReader<Visitor> reader(visitor, met);
      reader.visit(arguments.callable.get(), Path(path, "closure"));
      reader.hooks(Path(path, "hooks of all modules"));
      python::visit_environment(arguments.callable.get().ptr(), Path(path, "os.environ"), visitor);
    }
  }
};

}  // namespace diptych
