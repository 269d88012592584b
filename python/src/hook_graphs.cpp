// What hooks of Python compute, if they do nothing else: see Note [Hooks as nodes].
#include "diptych/backward/hook_graph.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "diptych/backward/run_limits.h"
#include "diptych/base/log.h"
#include "diptych/hops/body.h"
#include "diptych/trace/placeholder.h"
#include "diptych/tree/spec.h"
#include "dynamo.h"
#include "guards/closure.h"
#include "handle.h"
#include "python_hooks.h"

namespace diptych::python {

using namespace detail;
namespace {

namespace ag = torch::autograd;
using diptych::detail::EagerStage;

template <class OfPython>
std::optional<py::list> functions_in(const auto& hooks) {
  py::list all;
  for (const auto& hook : hooks) {
    PyObject* const functions = functions_of<OfPython>(*hook);
    if (functions == nullptr) return std::nullopt;
    for (const auto& [key, function] : py::reinterpret_borrow<py::dict>(functions)) all.append(function);
  }
  return all;
}

// Returns the functions that a stage calls, in order; none if others than Python's are among them.
std::optional<py::list> functions_of_stage(ag::Node& node, EagerStage stage) {
  switch (stage) {
    case EagerStage::kTensorHooks:
      return functions_in<ag::PyFunctionTensorPreHook>(node.tensor_pre_hooks());
    case EagerStage::kPreHooks:
      return functions_in<ag::PyFunctionPreHook>(node.pre_hooks());
    case EagerStage::kPostHooks:
      return functions_in<ag::PyFunctionPostHook>(node.post_hooks());
    default:
      return std::nullopt;
  }
}

template <class Visitor>
void read(const py::list& functions, Visitor& visitor) {
  Visited met;
  ClosureReader<Visitor> reader(visitor, met);
  visitor.structure(Path(), Structure::kSequence, static_cast<int64_t>(functions.size()));
  int64_t index = 0;
  for (const py::handle function : functions) reader.object(function, Path(Path(), index++));
}

/// The hooks that Python has registered for a stage of a node, and what they read.
struct HooksOfPython final : public diptych::detail::HookGraph {
  bool holds(const ag::Node& node, EagerStage stage) const override {
    const py::gil_scoped_acquire gil;
    const auto functions = functions_of_stage(const_cast<ag::Node&>(node), stage);
    if (!functions) return false;
    TreeMatcher matcher(spec, [](const at::Tensor&) {});
    diptych::python::read(*functions, matcher);
    return matcher.matched();
  }

  std::vector<at::Tensor> record(std::vector<at::Tensor>&& inputs) const override {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);  // its casts are nodes
    return program->run(std::move(inputs), {.differentiable = true});
  }

  std::shared_ptr<const Program> program;
  TreeSpec spec;
};

/// The hooks of a stage as a function of the gradients that are defined.
class StageFunction {
 public:
  StageFunction(ag::Node& node, EagerStage stage, const ag::variable_list& gradients)
      : node_(node), stage_(stage), gradients_(gradients) {}

  FlatResult operator()(const std::vector<at::Tensor>& stand_ins) const {
    ag::variable_list given(gradients_.size());
    size_t next = 0;
    for (size_t i = 0; i < given.size(); ++i) {
      if (gradients_[i].defined()) given[i] = stand_ins[next++];
    }
    const ag::variable_list results = diptych::detail::call_hooks(node_, stage_, std::move(given));
    FlatResult flat;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!is_as_before(results[i], gradients_[i])) throw std::runtime_error("one returns what eager refuses");
      if (!results[i].defined()) continue;
      flat.paths.push_back(std::to_string(flat.tensors.size()));
      flat.tensors.push_back(results[i]);
    }
    return flat;
  }

 private:
  static bool is_as_before(const at::Tensor& result, const at::Tensor& given) {
    if (!result.defined() || !given.defined()) return result.defined() == given.defined();
    return result.sizes() == given.sizes() && result.dtype() == given.dtype() && result.device() == given.device() &&
           result.layout() == given.layout();
  }

  ag::Node& node_;
  EagerStage stage_;
  const ag::variable_list& gradients_;
};

// Traces the hooks on examples of the gradients; null if a graph of them would not say all.
std::shared_ptr<HooksOfPython> traced(ag::Node& node, EagerStage stage, const ag::variable_list& gradients) {
  std::vector<at::Tensor> examples;
  std::vector<std::string> paths;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined()) continue;
    examples.push_back(make_placeholder(TensorMeta::of(gradient)));
    paths.push_back("gradient." + std::to_string(paths.size()));
  }
  const DynamoPause pause;
  const Body body(StageFunction(node, stage, gradients), examples, paths, "hooks");
  const auto is_plain = [](const at::Tensor& tensor) { return diptych::detail::why_not_plain(tensor) == nullptr; };
  const auto& read = body.free_variables();
  if (!body.mutations().empty() || !body.graph()->constants().empty() ||
      !std::all_of(read.begin(), read.end(), is_plain))
    return nullptr;
  auto made = std::make_shared<HooksOfPython>();
  made->program = std::make_shared<const Program>(*body.graph());
  made->read = read;
  return made;
}

std::shared_ptr<const diptych::detail::HookGraph> graph_of(const ag::Node& constant, EagerStage stage,
                                                           const ag::variable_list& gradients) {
  const py::gil_scoped_acquire gil;
  auto& node = const_cast<ag::Node&>(constant);
  try {
    const auto functions = functions_of_stage(node, stage);
    if (!functions) return nullptr;
    const py::object work = py::module_::import("diptych._host.tensor_work");
    if (!work.attr("is_only_tensor_work")(*functions).cast<bool>()) return nullptr;
    TreeRecorder recorder;
    diptych::python::read(*functions, recorder);
    auto made = traced(node, stage, gradients);
    if (made == nullptr) return nullptr;
    made->spec = recorder.take_spec();
    made->is_constant = work.attr("is_constant")(*functions).cast<bool>();
    return made;
  } catch (const std::exception& error) {
    log(Log::kBackward, "hooks of {} run live: {}", node.name(), error.what());
    PyErr_Clear();  // which torch leaves set on its way here
    return nullptr;
  }
}

}  // namespace

void bind_hook_graphs() { diptych::detail::set_hook_reader(&graph_of); }

}  // namespace diptych::python
