#include "diptych/training/device_step.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "diptych/backends/builtin_backends.h"
#include "diptych/base/check.h"
#include "diptych/base/log.h"
#include "diptych/compile/cache.h"
#include "diptych/compile/tensor_guards.h"
#include "diptych/hops/transformed_call.h"
#include "diptych/interpreter/run_guards.h"
#include "diptych/trace/global_state.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/trace_guard.h"
#include "diptych/training/device_tensors.h"
#include "diptych/training/step_program.h"

namespace diptych {

bool xla::DeviceTensor::is_ready() const { return buffer_ == nullptr || buffer_->is_ready(); }

at::Tensor xla::DeviceTensor::tensor() const {
  DIPTYCH_CHECK(defined(), "[step] got a result that the step does not have; the norm needs max_gradient_norm");
  const auto lying = buffer_->sizes();
  std::vector<int64_t> back(order_.size());
  for (size_t i = 0; i < order_.size(); ++i) back[order_[i]] = static_cast<int64_t>(i);
  const at::Tensor values = at::empty(lying, at::dtype(buffer_->dtype()));
  buffer_->copy_to(values);
  return values.permute(back);
}

double xla::DeviceTensor::item() const {
  const at::Tensor values = tensor();
  DIPTYCH_CHECK(values.numel() == 1, "[step] item() of a result of sizes [{}], expected one element; use tensor()",
                fmt::join(values.sizes(), ","));
  return values.item<double>();
}

namespace detail {

class DeviceStep::Impl {
 public:
  Impl(std::shared_ptr<const OptimizerView> optimizer, xla::DeviceStepOptions options)
      : optimizer_(std::move(optimizer)), options_(std::move(options)) {
    DIPTYCH_CHECK(!options_.max_gradient_norm || *options_.max_gradient_norm > 0,
                  "[step] max_gradient_norm is {}, expected a positive number; leave it out to turn clipping off",
                  *options_.max_gradient_norm);
    DIPTYCH_CHECK(options_.norm_type > 0, "[step] norm_type is {}, expected a positive number or infinity",
                  options_.norm_type);
    draws_on_device(options_.draws, "step");
    xla::check_mesh(options_.mesh);
    const auto& axes = options_.mesh.names;
    const std::string& axis = options_.optimizer_axis;
    DIPTYCH_CHECK(axis.empty() || std::find(axes.begin(), axes.end(), axis) != axes.end(),
                  "[step] optimizer_axis is '{}', which the mesh does not have; its axes are [{}]", axis,
                  fmt::join(axes, ", "));
  }

  Result run(const StepFunction& function, const Flattened& arguments) {
    DIPTYCH_CHECK(!is_tracing(), "[step] a step was called inside a function that is being captured; call it outside");
    check_plain("step", arguments);
    const std::lock_guard lock(mutex_);
    const c10::AutoGradMode records(true);
    const OptimizerState optimizer(optimizer_);
    const Known& known = find(function, arguments, optimizer);
    std::vector<at::Tensor> tensors = arguments.tensors;
    const auto& free = known.program.step().free_variables;
    tensors.insert(tensors.end(), free.begin(), free.end());
    const RunBelowAutograd guard;
    auto results = known.program.run(
        [&](const StepInput& input, const DevicePort& port) { return buffer_of(input, tensors, optimizer, port); });
    return {take(known.program, std::move(results), tensors, optimizer), known.example};
  }

  void sync() {
    const std::lock_guard lock(mutex_);
    if (!tensors_.is_any_ahead() && steps_.empty()) return;
    const PauseTraceGuard real;  // a step may be dropped while some function is captured
    const OptimizerState optimizer(optimizer_);
    std::unordered_map<const c10::TensorImpl*, std::vector<at::Tensor>> fresh;
    tensors_.sync([&](const DeviceTensors::Key& key, const DeviceTensors::Entry& entry) {
      fresh[key.first].push_back(at::empty_like(entry.owner.detach()));
      return fresh[key.first].back();
    });
    for (size_t i = 0; i < optimizer.entries().size(); ++i) {
      const auto* const identity = optimizer.entries()[i].parameter.unsafeGetTensorImpl();
      const auto counted = steps_.find(identity);
      if (counted == steps_.end() || optimizer.num_tensors(i) == 0) continue;
      const auto made = fresh.find(identity);
      optimizer.store(i, counted->second, made == fresh.end() ? nullptr : &made->second);
    }
    steps_.clear();
  }

  size_t state_bytes(size_t device) const {
    const std::lock_guard lock(mutex_);
    size_t bytes = 0;
    for (const auto& [key, entry] : tensors_.entries()) bytes += entry.buffer->bytes_on_device(device);
    return bytes;
  }

  size_t num_programs() const {
    const std::lock_guard lock(mutex_);
    return known_.size();
  }

 private:
  struct Known {
    TreeSpec spec;
    GlobalState state;
    std::string optimizer;  // OptimizerState::key()
    TensorGuards guards;    // of the arguments, then the free variables
    StepProgram program;
    std::shared_ptr<const void> example;
  };

  static Cache::Tensors addresses(const std::vector<at::Tensor>& arguments, const std::vector<at::Tensor>& free) {
    Cache::Tensors tensors;
    for (const at::Tensor& tensor : arguments) tensors.push_back(&tensor);
    for (const at::Tensor& tensor : free) tensors.push_back(&tensor);
    return tensors;
  }

  const Known& find(const StepFunction& function, const Flattened& arguments, const OptimizerState& optimizer) {
    const GlobalState state = GlobalState::current();
    const std::string key = optimizer.key();
    for (const auto& known : known_) {
      if (!(known->state == state) || known->optimizer != key || !(known->spec == arguments.spec)) continue;
      if (!known->guards.check(addresses(arguments.tensors, known->program.step().free_variables))) continue;
      const auto& state_of_host = known->program.step().host_state;
      const auto is_same = [](const auto& reads) { return reads.first->hash() == reads.second; };
      if (std::all_of(state_of_host.begin(), state_of_host.end(), is_same)) return *known;
    }
    return add(function, arguments, optimizer, state);
  }

  const Known& add(const StepFunction& function, const Flattened& arguments, const OptimizerState& optimizer,
                   const GlobalState& state) {
    StepGraph step = capture(function, arguments, optimizer);
    log(Log::kCache, "{}: program {} on {} devices, {} nodes", options_.name, known_.size() + 1,
        options_.mesh.num_devices(), step.graph.nodes().size());
    auto example = function.example ? function.example() : nullptr;
    TensorGuards guards(addresses(arguments.tensors, step.free_variables), TensorGuards::Memory::kByAddress);
    known_.push_back(std::unique_ptr<const Known>(
        new Known{arguments.spec, state, optimizer.key(), std::move(guards),
                  StepProgram(std::move(step), options_, PjrtClient::shared()), std::move(example)}));
    return *known_.back();
  }

  StepGraph capture(const StepFunction& function, const Flattened& arguments, const OptimizerState& optimizer) const {
    const auto make = [&] {
      return capture_step_graph(function.flat, arguments.tensors, arguments.spec.tensor_paths(), optimizer, options_);
    };
    const auto watch = function.watch ? function.watch() : nullptr;
    return watch == nullptr ? make() : watched(*watch, arguments.tensors, make);
  }

  // No call of a step runs the function itself, so what the watch finds is refused.
  template <class Make>
  static StepGraph watched(CaptureWatch& watch, const std::vector<at::Tensor>& arguments, const Make& make) {
    std::optional<StepGraph> step;
    try {
      step = make();
    } catch (...) {
      watch.forget();
      throw;
    }
    std::vector<at::Tensor> kept;
    for (const StepInput& input : step->inputs) {
      if (input.kind != StepInput::Kind::kKept) continue;
      const bool is_argument = input.index < arguments.size();
      kept.push_back(is_argument ? arguments[input.index] : step->free_variables[input.index - arguments.size()]);
    }
    const auto found = watch.finish(kept);
    const std::string& what = found.what.empty() ? found.reads : found.what;
    DIPTYCH_CHECK(what.empty(),
                  "[step] the function {}, which no later step would do, because a step is captured once{}; do it "
                  "outside the function, or use aot_function with backend 'xla'",
                  what, found.is_undone ? "" : " (the capture has done it, and it can't be undone)");
    return *std::move(step);
  }

  int64_t steps_before(size_t number, const OptimizerState& optimizer) const {
    const auto& entry = optimizer.entries()[number];
    const auto counted = steps_.find(entry.parameter.unsafeGetTensorImpl());
    return std::max<int64_t>(counted == steps_.end() ? entry.steps : counted->second, 0);
  }

  std::shared_ptr<ShardedBuffer> buffer_of(const StepInput& input, const std::vector<at::Tensor>& tensors,
                                           const OptimizerState& optimizer, const DevicePort& port) {
    switch (input.kind) {
      case StepInput::Kind::kKept:
        return tensors_.buffer_of(0, input.name, tensors[input.index], tensors[input.index], port);
      case StepInput::Kind::kOptimizerState: {
        const auto& entry = optimizer.entries()[input.index];
        const at::Tensor host = entry.tensors.empty() ? at::Tensor() : entry.tensors[input.part];
        return tensors_.buffer_of(1 + input.part, input.name, entry.parameter, host, port);
      }
      case StepInput::Kind::kGiven:
        return port.send(tensors[input.index]);
      case StepInput::Kind::kNumbers: {
        const at::Tensor numbers = at::empty({static_cast<int64_t>(optimizer.entries().size())}, at::kDouble);
        for (size_t i = 0; i < optimizer.entries().size(); ++i)
          numbers.mutable_data_ptr<double>()[i] = static_cast<double>(steps_before(i, optimizer) + 1);
        return port.send(numbers);
      }
      case StepInput::Kind::kLearningRates: {
        const auto& rates = optimizer.learning_rates();
        const at::Tensor tensor = at::empty({static_cast<int64_t>(rates.size())}, at::kDouble);
        std::copy(rates.begin(), rates.end(), tensor.mutable_data_ptr<double>());
        return port.send(tensor);
      }
      case StepInput::Kind::kDrawn:
        break;  // the program sends them itself
    }
    throw InternalError("a step's input has no buffer of its kind");
  }

  xla::StepResult take(const StepProgram& program, std::vector<std::shared_ptr<ShardedBuffer>> results,
                       const std::vector<at::Tensor>& tensors, const OptimizerState& optimizer) {
    xla::StepResult result;
    const StepGraph& step = program.step();
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& [kind, index] = step.outputs[i];
      if (kind == StepOutput::Kind::kNewValue) {
        const StepInput& input = step.inputs[index];
        const bool is_kept = input.kind == StepInput::Kind::kKept;
        const at::Tensor& owner = is_kept ? tensors[input.index] : optimizer.entries()[input.index].parameter;
        tensors_.set({owner.unsafeGetTensorImpl(), is_kept ? 0 : 1 + input.part}, std::move(results[i]));
        continue;
      }
      xla::DeviceTensor tensor(std::move(results[i]), program.order_of(i));
      if (kind == StepOutput::Kind::kNorm)
        result.gradient_norm = std::move(tensor);
      else if (index == 0)
        result.loss = std::move(tensor);
      else
        result.extras.push_back(std::move(tensor));
    }
    for (const size_t number : step.updated) {
      steps_[optimizer.entries()[number].parameter.unsafeGetTensorImpl()] = steps_before(number, optimizer) + 1;
    }
    return result;
  }

  const std::shared_ptr<const OptimizerView> optimizer_;
  const xla::DeviceStepOptions options_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<const Known>> known_;
  DeviceTensors tensors_;
  /// The updates of each parameter that the devices are ahead in, those of the optimizer included.
  std::unordered_map<const c10::TensorImpl*, int64_t> steps_;
};

DeviceStep::DeviceStep(torch::optim::Optimizer& optimizer, xla::DeviceStepOptions options)
    : DeviceStep(view_of(optimizer), std::move(options)) {}

DeviceStep::DeviceStep(std::shared_ptr<const OptimizerView> optimizer, xla::DeviceStepOptions options)
    : impl_(std::make_unique<Impl>(std::move(optimizer), std::move(options))) {}

DeviceStep::~DeviceStep() {
  try {
    impl_->sync();
  } catch (const std::exception& error) {
    log(Log::kCache, "a step could not copy its values to the host at its end: {}", error.what());
  }
}

DeviceStep::Result DeviceStep::run(const StepFunction& function, const Flattened& arguments) {
  return impl_->run(function, arguments);
}

void DeviceStep::sync() { impl_->sync(); }

size_t DeviceStep::state_bytes(size_t device) const { return impl_->state_bytes(device); }

size_t DeviceStep::num_programs() const { return impl_->num_programs(); }

}  // namespace detail
}  // namespace diptych
