#include "diptych/backward/step.h"

#include <torch/csrc/autograd/autograd.h>

#include "diptych/backward/optimizer_ending.h"
#include "diptych/backward/scopes.h"
#include "diptych/base/check.h"
#include "diptych/trace/recorder.h"

namespace diptych {

using namespace detail;

class TrainingStep::Impl {
 public:
  Impl(torch::optim::Optimizer& optimizer, const StepOptions& options)
      : optimizer_(optimizer), options_(options), backend_(detail::run_backend(options.backend)) {
    detail::view_of(optimizer);  // checks its class
    DIPTYCH_CHECK(!(options.max_gradient_norm && !(*options.max_gradient_norm > 0)),
                  "[step] max_gradient_norm is {}, expected a positive number; leave it out to turn clipping off",
                  *options.max_gradient_norm);
    DIPTYCH_CHECK(options.norm_type > 0, "[step] norm_type is {}, expected a positive number or infinity",
                  options.norm_type);
  }

  std::optional<double> run(const at::Tensor& loss) {
    DIPTYCH_CHECK(!detail::is_tracing(),
                  "[step] a step was called inside a function that is being captured; call it outside");
    DIPTYCH_CHECK(!runs_,
                  "[step] a hook in a step's backward calls the step again; call it after the step has returned");
    const Running running(runs_);
    detail::StepEnding ending(optimizer_, options_);
    for (const at::Tensor& parameter : ending.leaves()) parameter.mutable_grad().reset();
    {
      const detail::EndingScope scope(ending, backend_, graphs_);
      torch::autograd::backward({loss}, {});
    }
    if (!ending.is_done()) ending.run_in_eager();
    return options_.max_gradient_norm ? std::optional(ending.norm()) : std::nullopt;
  }
  std::vector<NativeGraph> native_graphs() const { return graphs_.native_graphs(); }

 private:
  struct Running {
    explicit Running(bool& flag) : flag_(flag) { flag_ = true; }
    ~Running() { flag_ = false; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    bool& flag_;
  };

  torch::optim::Optimizer& optimizer_;
  const StepOptions options_;
  const detail::RunBackend& backend_;
  const detail::EngineCapture engine_;
  detail::RunGraphs graphs_;
  bool runs_ = false;
};

TrainingStep::TrainingStep(torch::optim::Optimizer& optimizer, const StepOptions& options)
    : impl_(std::make_shared<Impl>(optimizer, options)) {}

std::optional<double> TrainingStep::operator()(const at::Tensor& loss) const { return impl_->run(loss); }

std::vector<NativeGraph> TrainingStep::native_graphs() const { return impl_->native_graphs(); }

TrainingStep capture_step(torch::optim::Optimizer& optimizer, const StepOptions& options) {
  return TrainingStep(optimizer, options);
}

}  // namespace diptych
