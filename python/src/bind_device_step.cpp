// Training steps that live on the devices of XLA.
#include <pybind11/stl.h>

#include <optional>

#include "bindings.h"
#include "diptych/base/check.h"
#include "diptych/compile/arguments.h"
#include "diptych/training/device_step.h"
#include "function.h"
#include "optimizer.h"

namespace diptych::python {
namespace {

using xla::DeviceTensor;

/// A function that returns a loss, or a tuple of the loss and of what else it computed.
struct LossOrPair {
  Function function;
  Value operator()(const Arguments& arguments) const {
    Value result = function(arguments);
    const py::gil_scoped_acquire gil;
    const py::handle object = result.handle.get();
    const bool is_pair = PyTuple_Check(object.ptr()) && PyTuple_GET_SIZE(object.ptr()) == 2;
    const py::handle loss = is_pair ? PyTuple_GET_ITEM(object.ptr(), 0) : object.ptr();
    DIPTYCH_CHECK(THPVariable_Check(loss.ptr()),
                  "[step] the function returned a {} with a {} in the place of the loss, expected one tensor, or a "
                  "tuple of the loss and of what else it computed",
                  type_name(object), type_name(loss));
    return result;
  }
};

/// A step of a Python function and a Python optimizer.
class Step {
 public:
  Step(const py::object& function, const py::object& optimizer, xla::DeviceStepOptions options)
      : function_{Function(function)},
        names_(options.argument_names.empty() ? parameter_names(function)
                                              : std::make_shared<const Arguments::Names>(options.argument_names)),
        step_(view_of(optimizer), std::move(options)) {}

  /// Returns the loss, what else the function returns in its structure or None, and the norm or None.
  py::tuple call(const py::args& args, const py::kwargs& kwargs) {
    const Arguments arguments(args, kwargs, names_, function_.function.callable());
    const DeviceStep::Result result = without_gil([&] { return run(arguments); });
    std::vector<py::object> tensors{py::cast(result.tensors.loss)};
    for (const DeviceTensor& extra : result.tensors.extras) tensors.push_back(py::cast(extra));
    ObjectFiller filler(std::move(tensors));
    const auto& example = *static_cast<const Value*>(result.example.get());
    const py::object made = Rebuilder<ObjectFiller>(filler).rebuild(example.handle.get(), Path());
    const bool is_pair = PyTuple_Check(made.ptr());
    const auto& norm = result.tensors.gradient_norm;
    return py::make_tuple(is_pair ? made[py::int_(0)] : made, is_pair ? py::object(made[py::int_(1)]) : py::none(),
                          norm.defined() ? py::cast(norm) : py::none());
  }
  void sync() { step_.sync(); }
  size_t state_bytes(size_t device) const { return step_.state_bytes(device); }
  size_t num_programs() const { return step_.num_programs(); }

 private:
  DeviceStep::Result run(const Arguments& arguments) {
    const Flattened flat = flatten_arguments({""}, arguments);  // the one C++ argument holds all of Python's
    std::shared_ptr<Value> example;
    return step_.run({make_flat<Value>(function_, example, arguments),
                      [&] { return function_.function.watch_capture(); }, [&] { return example; }},
                     flat);
  }

  LossOrPair function_;
  std::shared_ptr<const Arguments::Names> names_;
  DeviceStep step_;
};

std::unique_ptr<Step> make_step(const py::object& function, const py::object& optimizer,
                                std::optional<double> max_gradient_norm, double norm_type, const std::string& partition,
                                std::vector<std::string> argument_names, std::vector<std::string> axes,
                                std::vector<int64_t> sizes,
                                const std::vector<std::pair<std::string, xla::Sharding>>& shardings,
                                std::string optimizer_axis, std::string draws, std::string name) {
  xla::DeviceStepOptions options{.max_gradient_norm = max_gradient_norm,
                                 .norm_type = norm_type,
                                 .partition = partitioner_by_name(partition),
                                 .argument_names = std::move(argument_names),
                                 .mesh = {std::move(axes), std::move(sizes)},
                                 .optimizer_axis = std::move(optimizer_axis),
                                 .draws = std::move(draws),
                                 .name = std::move(name)};
  for (const auto& [pattern, sharding] : shardings) options.shardings.push_back({pattern, sharding});
  return std::make_unique<Step>(function, optimizer, std::move(options));
}

}  // namespace

void bind_device_step(py::module_& module) {
  using WithoutLock = py::call_guard<py::gil_scoped_release>;
  py::class_<DeviceTensor>(module, "DeviceTensor", "A tensor on the devices of a step, which may still be computed.")
      .def("is_ready", &DeviceTensor::is_ready, WithoutLock(), "Whether the values are computed; does not wait.")
      .def("tensor", &DeviceTensor::tensor, WithoutLock(),
           "Waits for the values and returns a copy of them on the CPU. Errors: UserError if the step failed.")
      .def("item", &DeviceTensor::item, WithoutLock(), "Waits for the value of one element, as a float.");
  py::class_<Step>(module, "DeviceStep", "What is behind diptych.xla.Step.")
      .def(py::init(&make_step), py::arg("function"), py::arg("optimizer"), py::kw_only(), py::arg("max_gradient_norm"),
           py::arg("norm_type"), py::arg("partition"), py::arg("argument_names"), py::arg("axes"), py::arg("sizes"),
           py::arg("shardings"), py::arg("optimizer_axis"), py::arg("draws"), py::arg("name"))
      .def("__call__", &Step::call)
      .def("sync", &Step::sync, WithoutLock(), "Copies what the devices are ahead in to the host.")
      .def("state_bytes", &Step::state_bytes, WithoutLock(), py::arg("device"), "The bytes of what one device keeps.")
      .def_property_readonly("num_programs", py::cpp_function(&Step::num_programs, WithoutLock()),
                             "How many programs were compiled.");
}

}  // namespace diptych::python
