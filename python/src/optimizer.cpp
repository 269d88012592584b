#include "optimizer.h"

#include <utility>

#include "handle.h"
#include "tensors.h"

namespace diptych::python {
namespace {

using namespace detail;

// What diptych._optimizers.read() returns of a group, in this order.
enum GroupPart : size_t { kParameters, kStates, kOptions, kLearningRate, kMaximizes };

ParameterState state_from(const py::object& state) {
  if (state.is_none()) return {};
  auto [steps, tensors] = state.cast<std::pair<int64_t, MaybeTensors>>();
  return {steps, tensors_from(std::move(tensors))};
}

OptimizerGroup group_from(const py::tuple& parts) {
  OptimizerGroup group;
  group.parameters = parts[kParameters].cast<std::vector<at::Tensor>>();
  for (const py::handle state : parts[kStates])
    group.states.push_back(state_from(py::reinterpret_borrow<py::object>(state)));
  group.options = parts[kOptions].cast<std::vector<double>>();
  group.learning_rate = parts[kLearningRate].cast<double>();
  group.maximizes = parts[kMaximizes].cast<bool>();
  return group;
}

py::module_ reader() { return py::module_::import("diptych._optimizers"); }

class PythonOptimizer final : public OptimizerView {
 public:
  explicit PythonOptimizer(py::object optimizer) : optimizer_(std::move(optimizer)) {}

  OptimizerContents read() const override {
    const py::gil_scoped_acquire gil;
    const py::tuple found = reader().attr("read")(optimizer_.get());
    OptimizerContents contents{found[0].cast<std::string>(), {}};
    for (const py::handle group : found[1])
      contents.groups.push_back(group_from(py::reinterpret_borrow<py::tuple>(group)));
    return contents;
  }

  void store(const at::Tensor& parameter, int64_t steps, const std::vector<at::Tensor>* tensors) const override {
    const py::gil_scoped_acquire gil;
    const py::object made = tensors == nullptr ? py::none() : py::object(py::cast(*tensors));
    reader().attr("store")(optimizer_.get(), parameter, steps, made);
  }

 private:
  Handle optimizer_;
};

}  // namespace

std::shared_ptr<const OptimizerView> view_of(py::object optimizer) {
  auto view = std::make_shared<const PythonOptimizer>(std::move(optimizer));
  view->read();
  return view;
}

}  // namespace diptych::python
