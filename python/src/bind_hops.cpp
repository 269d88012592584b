// Higher-order operators on Python functions.
#include <fmt/format.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings.h"
#include "diptych/diptych.h"
#include "diptych/hops/scan/scan_layers.h"
#include "function.h"
#include "host_watch.h"

namespace diptych::python {
namespace {

// Thrown out of the capture of a loop whose carry holds numbers that change: it begins anew, with tensors for these. It
// is no std::exception, because a run in eager follows upon some of those.
struct NumbersMove {
  Handle dtypes;  ///< of the tensors
};

py::object of_tree(const char* name) { return py::module_::import("diptych._tree").attr(name); }

// Returns the next carry in the structure of the first one. Errors: NumbersMove. A run in eager has no second begin.
Value next_carry(const Value& init, const Value& got) {
  const py::gil_scoped_acquire gil;
  const py::tuple found = of_tree("next_carry")(init.handle.get(), got.handle.get());
  if (!found[1].is_none() && is_tracing()) throw NumbersMove{Handle(found[1])};
  return Value(found[0]);
}

// Calls a loop with its first carry, until no number of it changes.
template <class Loop>
py::object with_carry(const py::object& init, const Loop& loop) {
  Handle carry(init);
  while (true) {
    try {
      return loop(Value(carry.object()));
    } catch (const NumbersMove& moved) {
      carry = Handle(of_tree("with_tensors")(carry.get(), moved.dtypes.get()));
    }
  }
}

py::object python_scan(const py::object& f, const py::object& init, const py::object& xs, bool reverse,
                       std::optional<int64_t> length, std::optional<int64_t> max_saved_carries,
                       std::optional<int64_t> segment, int64_t unroll) {
  const ScanOptions options{reverse, length, max_saved_carries, segment, unroll};
  const PairFunction call{Function(f), "scan"};
  const Value slices(xs);
  return with_carry(init, [&](const Value& carry) {
    auto step = [&](const Value& now, const Value& x) {
      auto [next, y] = call(now, x);
      return std::pair(next_carry(carry, next), std::move(y));
    };
    HostRefusal watch("scan", f);
    const auto [last, stacks] = without_gil([&] { return scan(step, carry, slices, options); });
    watch.finish();
    return py::make_tuple(to_python(last), to_python(stacks));
  });
}

py::object python_map(const py::object& f, const py::object& xs) {
  Function function(f);
  const Value slices(xs);
  HostRefusal watch("map", f);
  const Value result = without_gil([&] { return diptych::map(function, slices); });
  watch.finish();
  return to_python(result);
}

py::object python_cond(const py::object& chosen, const py::object& if_true, const py::object& if_false,
                       const py::args& args) {
  if (PyBool_Check(chosen.ptr())) return (chosen.ptr() == Py_True ? if_true : if_false)(*args);  // no tensor decides
  if (!THPVariable_Check(chosen.ptr())) {
    throw UserError(
        fmt::format("[cond] the predicate is a {}, expected a tensor of one element of dtype bool, or a bool; compare, "
                    "or call bool() "
                    "on it",
                    type_name(chosen)));
  }
  const at::Tensor predicate = THPVariable_Unpack(chosen.ptr());
  const Arguments arguments(args, {}, parameter_names(if_true), Handle(py::none()));
  Function yes(if_true), no(if_false);
  HostRefusal watch("cond", if_true);
  const Value result = without_gil([&] { return cond(predicate, yes, no, arguments); });
  watch.finish();
  return to_python(result);
}

py::object python_while_loop(const py::object& condition, const py::object& f, const py::object& init,
                             std::optional<int64_t> checkpoint_every) {
  TensorFunction holds{Function(condition), "while_loop"};
  const Function call(f);
  return with_carry(init, [&](const Value& carry) {
    auto step = [&](const Value& now) { return next_carry(carry, call(now)); };
    HostRefusal watch("while_loop", f);
    const Value last = without_gil([&] { return while_loop(holds, step, carry, WhileOptions{checkpoint_every}); });
    watch.finish();
    return to_python(last);
  });
}

py::object python_associative_scan(const py::object& f, const py::object& xs, bool reverse, int64_t dim) {
  const Function call(f);
  const Value elements(xs);
  const auto combine = [&](const Value& earlier, const Value& later) {
    const Value result = call(earlier, later);
    const py::gil_scoped_acquire gil;
    return Value(of_tree("in_structure_of")(elements.handle.get(), result.handle.get()));
  };
  HostRefusal watch("associative_scan", f);
  const Value result = without_gil([&] {
    return associative_scan(combine, elements, AssociativeScanOptions{reverse, dim});
  });
  watch.finish();
  return to_python(result);
}

/// A module whose forward is the body.
struct Layer {
  explicit Layer(py::object object) : module(object), call(std::move(object)) {}
  const Layer* operator->() const { return this; }
  Value forward(const Value& x) const { return call(x); }

  Value module;
  Function call;
};

py::object python_scan_layers(const py::iterable& modules, const py::object& x) {
  std::vector<Layer> layers;
  for (const py::handle module : modules) layers.emplace_back(py::reinterpret_borrow<py::object>(module));
  const Value carry(x);
  HostRefusal watch("scan_layers", x);
  const Value last = without_gil([&] { return scan_layers(layers, carry); });
  watch.finish();
  return to_python(last);
}

/// Calls a function with the user's rules fwd and bwd; bwd returns a tuple of one gradient per argument, None for none.
py::object python_custom_vjp(const py::object& function, const py::object& fwd, const py::object& bwd,
                             const py::args& args) {
  const Arguments arguments(args, {}, parameter_names(function), Handle(py::none()));
  const Flattened flat = diptych::detail::flatten_all(arguments);
  if (const auto why = diptych::detail::why_no_rule(flat)) {
    diptych::detail::note_eager_call("custom_vjp", *why);
    return py::module_::import("diptych._transforms").attr("custom_vjp")(fwd, bwd, args);
  }
  // The rule owns bwd and the arguments: the backward runs long after this call has returned.
  const auto gradients = [backward = Function(bwd), given = Handle(args)](const Value& residuals,
                                                                          const Value& tangents) {
    const py::gil_scoped_acquire gil;
    const Value result = backward(residuals, tangents);
    const auto fill = py::module_::import("diptych._tree").attr("fill_gradients");
    return std::tuple<Value>(Value(fill(result.handle.get(), given.get())));
  };
  const auto rule = custom_vjp(Function(function), PairFunction{Function(fwd), "custom_vjp"}, gradients);
  return to_python(without_gil([&] { return rule(arguments); }));
}

}  // namespace
}  // namespace diptych::python

namespace diptych {
template <>
struct Tree<python::Layer> {
  template <class Object, class Visitor>
  static void visit(Object& layer, const Path& path, Visitor& visitor) {
    visit_leaves(layer.module, path, visitor);
  }
};
}  // namespace diptych

namespace diptych::python {

void bind_hops(py::module_& module) {
  module.def("scan", &python_scan, py::arg("f"), py::arg("init"), py::arg("xs"), py::kw_only(),
             py::arg("reverse") = false, py::arg("length") = py::none(), py::arg("max_saved_carries") = py::none(),
             py::arg("segment") = py::none(), py::arg("unroll") = 1,
             R"(Runs carry, y = f(carry, x) for each slice x of xs along its first dimension.

Returns (last carry, the y stacked). f runs once, on stand-ins, however long the scan is; it may capture tensors and
modules, and everything is differentiable to any order.
Shapes: a leaf of xs is [length, ...], f sees [...]; a y of [...] becomes [length, ...]; a carry keeps its sizes and dtype.
Numbers of init that f changes are tensors of no dimensions to f, which then runs once more, and in the result: int64, float64 or
bool, or of the dtype of the tensor that f returns in their place. f may return a list for a tuple of init, and the reverse.
max_saved_carries: keeps at most so many carries for the backward and runs segments of steps again.
Errors: UserError by path for a carry that changes, leaves of unequal lengths, an argument changed in place.
Source: jax.lax.scan.)");
  module.def("map", &python_map, py::arg("f"), py::arg("xs"),
             R"(Returns f(x) for each slice x of xs along its first dimension, stacked.

f runs once, on stand-ins. Shapes: a leaf of xs is [length, ...], f sees [...]; a result of [...] becomes [length, ...].
Errors: UserError by path for leaves of unequal lengths or none, an argument changed in place. Source: jax.lax.map.)");
  module.def("cond", &python_cond, py::arg("predicate"), py::arg("if_true"), py::arg("if_false"),
             R"(Returns if_true(*args) where predicate holds, else if_false(*args).

Both are captured, only the chosen one is run; they return trees of one structure, with tensors of the same sizes and dtypes.
predicate: a tensor of one element of dtype bool; or a bool of Python's, by which the function is called as it is.
Errors: UserError by path where the two results differ, for another predicate, for an argument changed in place.
Source: jax.lax.cond.)");
  module.def("while_loop", &python_while_loop, py::arg("condition"), py::arg("f"), py::arg("init"), py::kw_only(),
             py::arg("checkpoint_every") = py::none(),
             R"(Runs carry = f(carry) from init on while condition(carry) holds; returns the last carry.

condition returns one element of dtype bool. Differentiable in reverse to any order.
Numbers of init that f changes are tensors of no dimensions, as in scan(), also to the condition.
checkpoint_every: keeps one carry in so many for the backward and runs the steps between again.
Errors: UserError by path for a carry that changes its sizes or dtype, for another condition.
Source: jax.lax.while_loop.)");
  module.def("associative_scan", &python_associative_scan, py::arg("f"), py::arg("xs"), py::kw_only(),
             py::arg("reverse") = false, py::arg("dim") = 0,
             R"(All prefixes of xs along dim under the associative function f, in a logarithmic number of steps.

f(a, b) combines two trees like xs at once for many elements.
Errors: UserError by path for a result unlike its arguments, leaves of unequal lengths. Source: jax.lax.associative_scan.)");
  module.def("scan_layers", &python_scan_layers, py::arg("layers"), py::arg("x"),
             R"(Runs x = layer(x) for each of the modules in order; returns the last x. The first alone is captured.

Errors: UserError names the first layer that differs in more than the values of its tensors, by path; as scan().)");
  module.def("call_custom_vjp", &python_custom_vjp, py::arg("function"), py::arg("fwd"), py::arg("bwd"));
}

}  // namespace diptych::python
