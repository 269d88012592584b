// What the backward of a torch.autograd.Function reads, and hooks on gradients: see Note [What a backward reads].
#include <torch/csrc/autograd/python_cpp_function.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "diptych/autodiff/host_reads.h"
#include "diptych/trace/custom_function.h"
#include "diptych/tree/spec.h"
#include "guards/closure.h"
#include "handle.h"
#include "python_hooks.h"
#include "tensors.h"

namespace diptych::python {

using namespace detail;
namespace {

namespace ag = torch::autograd;

// The reads of a Function's backward, which is looked up each time since it may be replaced, and of the hooks around
// it, which stay the same objects.
class ReadsOfNode final : public diptych::detail::HostReads {
 public:
  bool is_empty() const { return !kind_ && hooks_.empty(); }
  void add_function(const py::object& kind) { kind_.emplace(kind); }
  void add_hook(py::handle hook) { hooks_.emplace_back(py::reinterpret_borrow<py::object>(hook)); }

  std::string name() const override {
    const py::gil_scoped_acquire gil;
    const py::handle named = kind_ ? kind_->get() : hooks_.front().get();
    return py::str(py::getattr(named, "__qualname__", py::repr(named)));
  }

  uint64_t hash() const override {
    const py::gil_scoped_acquire gil;
    TreeHasher hasher;
    Visited met;
    ClosureReader<TreeHasher> reader(hasher, met);
    if (kind_) {
      for (const char* const name : {"backward", "vjp"}) reader.visit(kind_->get().attr(name), Path(Path(), name));
    }
    for (const Handle& hook : hooks_) reader.visit(hook.get(), Path(Path(), "hook"));
    return hasher.hash();
  }

 private:
  std::optional<Handle> kind_;
  std::vector<Handle> hooks_;
};

void add_function(ag::Node& node, ReadsOfNode& reads) {
  if (!diptych::detail::is_python_function(node)) return;
  const auto made = py::reinterpret_steal<py::object>(ag::functionToPyObject(node.getptr()));
  const py::object type = py::type::of(made);
  if (!py::hasattr(type, "_forward_cls")) return;
  const py::object kind = type.attr("_forward_cls");
  if (!is_class_of_library(kind)) reads.add_function(kind);
}

// Adds the backward hooks of a module that one of torch's own hooks calls, which itself is left out: it keeps what it
// needs from one call to the next.
void add_hooks_of_module(py::handle torchs, ReadsOfNode& reads) {
  static const Handle kind(py::module_::import("torch.utils.hooks").attr("BackwardHook"));
  PyObject* const cells = PyFunction_GetClosure(torchs.ptr());
  for (Py_ssize_t i = 0; cells != nullptr && i < PyTuple_GET_SIZE(cells); ++i) {
    const py::handle behind = PyCell_GET(PyTuple_GET_ITEM(cells, i));
    if (!behind || !py::isinstance(behind, kind.get())) continue;
    for (const char* const name : {"user_hooks", "user_pre_hooks"}) {
      for (const py::handle hook : behind.attr(name)) {
        const py::str module = py::getattr(hook, "__module__", py::str());
        if (!module.cast<std::string_view>().starts_with("torch.")) reads.add_hook(hook);
      }
    }
  }
}

// Adds the user's hooks.
template <class OfPython>
void add_hooks(const auto& hooks, ReadsOfNode& reads) {
  for (const auto& hook : hooks) {
    PyObject* const functions = functions_of<OfPython>(*hook);
    if (functions == nullptr) continue;
    for (const auto& [key, function] : py::reinterpret_borrow<py::dict>(functions)) {
      const bool is_torchs = PyFunction_Check(function.ptr()) && is_of_library(function.ptr());
      is_torchs ? add_hooks_of_module(function, reads) : reads.add_hook(function);
    }
  }
}

std::shared_ptr<const diptych::detail::HostReads> reads_of(ag::Node& node) {
  const py::gil_scoped_acquire gil;
  const auto reads = std::make_shared<ReadsOfNode>();
  add_function(node, *reads);
  add_hooks<ag::PyFunctionTensorPreHook>(node.tensor_pre_hooks(), *reads);
  add_hooks<ag::PyFunctionPreHook>(node.pre_hooks(), *reads);
  add_hooks<ag::PyFunctionPostHook>(node.post_hooks(), *reads);
  return reads->is_empty() ? nullptr : reads;
}

}  // namespace

void bind_backward_reads() { diptych::detail::host_reads_of = &reads_of; }

}  // namespace diptych::python
