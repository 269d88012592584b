#include "function.h"

#include <fmt/format.h>
#include <algorithm>
#include <unordered_map>

#include "bindings.h"
#include "diptych/trace/recorder.h"
#include "dynamo.h"
#include "errors.h"

namespace diptych::python {
namespace {

// Tensors that the function captured while it was traced get the names by which it reaches them.
void name_free_variables(py::handle callable) {
  auto* const recorder = diptych::detail::Recorder::current();
  if (recorder == nullptr) return;
  py::list wanted;
  for (const size_t index : recorder->primal_table().unnamed()) wanted.append(recorder->primals()[index].real);
  if (wanted.empty()) return;
  std::unordered_map<const at::TensorImpl*, std::string> names;
  const py::list found = py::module_::import("diptych._names").attr("names_of_tensors")(callable, wanted);
  for (const py::handle pair : found) {
    const auto [tensor, name] = pair.cast<std::pair<py::object, std::string>>();
    names.emplace(THPVariable_Unpack(tensor.ptr()).unsafeGetTensorImpl(), name);
  }
  recorder->name_free_variables([&](const at::Tensor& real) {
    const auto known = names.find(real.unsafeGetTensorImpl());
    return known == names.end() ? std::string() : known->second;
  });
}

py::object call(py::handle callable, const py::tuple& args, const py::dict& kwargs = {}) {
  const DynamoPause pause;
  try {
    py::object result = callable(*args, **kwargs);
    close_open_numbers();
    name_free_variables(callable);
    return result;
  } catch (py::error_already_set& error) {
    restore_user_error(error);
    throw;
  }
}

struct AnyUndefined : LeafVisitor {
  bool found = false;
  void tensor(const Path&, const at::Tensor& tensor) { found = found || !tensor.defined(); }
};

struct Addresses : LeafVisitor {
  std::vector<const void*> found;
  void tensor(const Path&, const at::Tensor& tensor) { found.push_back(tensor.unsafeGetTensorImpl()); }
};

std::vector<const void*> addresses_in(const Arguments& arguments) {
  Addresses addresses;
  for (const Value& value : arguments.positional) visit_leaves(value, Path(), addresses);
  for (const auto& [name, value] : arguments.keyword) {
    visit_leaves(static_cast<const Value&>(value), Path(), addresses);
  }
  return std::move(addresses.found);
}

py::object none_for_absent(py::handle object) {
  return py::module_::import("diptych._tree").attr("none_for_absent")(object);
}

}  // namespace

Arguments::Arguments(const py::args& args, const py::kwargs& kwargs, std::shared_ptr<const Names> names,
                     Handle callable)
    : names(std::move(names)), callable(std::move(callable)) {
  for (const py::handle argument : args) positional.emplace_back(py::reinterpret_borrow<py::object>(argument));
  for (const auto& [name, argument] : kwargs) {
    keyword.emplace_back(name.cast<std::string>(), Value(py::reinterpret_borrow<py::object>(argument)));
  }
  const auto place = [this](const auto& entry) {
    const auto found = std::find(this->names->begin(), this->names->end(), entry.first);
    return std::pair(found - this->names->begin(), entry.first);
  };
  std::vector<std::string> called;
  for (const auto& [name, argument] : keyword) called.push_back(name);
  std::sort(keyword.begin(), keyword.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  set_order(called);
}

void Arguments::set_order(const std::vector<std::string>& called) {
  for (const std::string& name : called) {
    if (std::find(names->begin(), names->end(), name) != names->end()) continue;
    const auto found = std::find_if(keyword.begin(), keyword.end(), [&](const auto& k) { return k.first == name; });
    order.push_back(static_cast<size_t>(found - keyword.begin()));
  }
  if (std::is_sorted(order.begin(), order.end())) order.clear();
}

std::shared_ptr<const Arguments::Names> parameter_names(py::handle callable) {
  const auto names = py::module_::import("diptych._tree").attr("parameter_names")(callable);
  return std::make_shared<const Arguments::Names>(names.cast<Arguments::Names>());
}

Value Function::operator()(const Arguments& arguments) const {
  const py::gil_scoped_acquire gil;
  py::tuple args(arguments.positional.size());
  for (size_t i = 0; i < args.size(); ++i) args[i] = arguments.positional[i].handle.object();
  py::dict kwargs;
  const auto add = [&](const auto& entry) { kwargs[py::str(entry.first)] = entry.second.handle.object(); };
  const size_t num_in_place = arguments.keyword.size() - arguments.order.size();
  std::for_each_n(arguments.keyword.begin(), num_in_place, add);
  for (const size_t place : arguments.order) add(arguments.keyword[place]);
  const bool is_traced = diptych::detail::Recorder::current() != nullptr;
  if (HostWatch* const watch = is_traced ? HostWatch::current() : nullptr) {
    watch->enter(callable_.get(), args, kwargs, *arguments.names, addresses_in(arguments));
  }
  py::object result;
  try {
    result = call(callable_.get(), args, kwargs);
  } catch (const py::error_already_set& error) {
    const HostWatch* const watch = is_traced ? HostWatch::current() : nullptr;
    if (watch != nullptr) watch->leave_by(callable_.get(), error);
    throw;
  }
  if (is_traced) {
    py::module_::import("diptych._host.hidden_tensors").attr("refuse_hidden_tensors")(result);
    if (const HostWatch* const watch = HostWatch::current()) watch->leave(callable_.get(), result);
  }
  return Value(result, /*takes_carriers=*/true);
}

Value Function::operator()(const Value& first, const Arguments& rest) const {
  Arguments all = rest;
  all.positional.insert(all.positional.begin(), Argument(first));
  return (*this)(all);
}

Value Function::operator()(const Value& argument) const {
  const py::gil_scoped_acquire gil;
  return Value(call(callable_.get(), py::make_tuple(argument.handle.get())));
}

Value Function::operator()(const Value& first, const Value& second) const {
  const py::gil_scoped_acquire gil;
  return Value(call(callable_.get(), py::make_tuple(first.handle.get(), second.handle.get())));
}

at::Tensor tensor_of(const Value& result, const char* role) {
  const py::gil_scoped_acquire gil;
  const py::handle object = result.handle.get();
  if (THPVariable_Check(object.ptr())) return THPVariable_Unpack(object.ptr());
  throw UserError(fmt::format("[{}] the function returned a {}, expected one tensor; return only the tensor", role,
                              type_name(object)));
}

std::pair<Value, Value> PairFunction::pair_of(const Value& result) const {
  const py::gil_scoped_acquire gil;
  const py::handle object = result.handle.get();
  if (!PyTuple_Check(object.ptr()) || py::len(object) != 2) {
    throw UserError(fmt::format("[{}] the function returned a {}, expected a tuple of two; return both, in that order",
                                role, type_name(object)));
  }
  const auto pair = py::reinterpret_borrow<py::tuple>(object);
  return {Value(pair[0]), Value(pair[1])};
}

py::object to_python(const Value& result) {
  AnyUndefined undefined;
  try {
    visit_leaves(result, Path(), undefined);
  } catch (const NoTree&) {  // it is of the function itself, since a graph's results are a tree
    return result.handle.object();
  }
  return undefined.found ? none_for_absent(result.handle.get()) : result.handle.object();
}

}  // namespace diptych::python
