// The random numbers of Python's random module and of numpy.random, which a trace records: see
// diptych/_host/numbers/draws.py.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

#include <cstring>

#include "bindings.h"
#include "diptych/ops/host_draw.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/traced_writes.h"
#include "handle.h"
#include "tensors.h"

namespace diptych::python {

using namespace detail;
namespace {

/// A generator by three functions of Python: draw(), get_state() as bytes, set_state(bytes).
class PythonGenerator final : public HostGenerator {
 public:
  PythonGenerator(py::object draw, py::object get_state, py::object set_state)
      : draw_(std::move(draw)), get_state_(std::move(get_state)), set_state_(std::move(set_state)) {}

  double draw() override {
    const py::gil_scoped_acquire gil;
    return draw_.get()().cast<double>();
  }

  void set_state(const c10::TensorImpl& state) override {
    const py::gil_scoped_acquire gil;
    set_state_.get()(py::bytes(static_cast<const char*>(state.data()), static_cast<size_t>(state.numel())));
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const py::gil_scoped_acquire gil;
    const auto bytes = get_state_.get()().cast<std::string>();
    const at::Tensor state = at::detail::empty_cpu({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::memcpy(state.mutable_data_ptr(), bytes.data(), bytes.size());
    return state.getIntrusivePtr();
  }

 private:
  Handle draw_, get_state_, set_state_;
};

// Records a draw of the function that is traced on this thread.
at::Tensor record_draw(const at::Generator& generator) {
  ++traced_writes;  // a function that raises an exception after a draw has drawn
  c10::Stack stack{generator, c10::Device(c10::kCPU)};
  host_draw_operator().handle().callBoxed(stack);
  return stack.back().toTensor();
}

bool may_draw() {
  const Recorder* const recorder = Recorder::current();
  return recorder != nullptr && recorder->phase() == Phase::kForward && recorder->asked_values().may_ask();
}

}  // namespace

void bind_host_generators(py::module_& module) {
  // Kept for good: graphs hold the generators.
  module.def(
      "host_draw",
      [](py::object draw, py::object get_state, py::object set_state) {
        const auto& generator = *new at::Generator(
            c10::make_intrusive<PythonGenerator>(std::move(draw), std::move(get_state), std::move(set_state)));
        return py::cpp_function([&generator] {
          const py::gil_scoped_release release;
          return record_draw(generator);
        });
      },
      py::arg("draw"), py::arg("get_state"), py::arg("set_state"),
      "Returns a function that records one draw of a generator in the trace that runs on this thread, as a tensor "
      "f64[].");
  module.def("may_draw", &may_draw, "Whether the trace that runs on this thread may record draws of the host.");
}

}  // namespace diptych::python
