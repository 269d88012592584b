// The training loop.
#include "common/trainer.h"

#include <diptych/base/error.h>
#include <torch/autograd.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <numbers>

#include "common/lap.h"
#include "common/progress.h"
#include "common/report.h"
#include "diptych/base/check.h"

namespace examples {
namespace {

constexpr double kClipNorm = 1.0;
constexpr double kFinalRate = 0.1;

volatile std::sig_atomic_t stop_asked = 0;

// While it lives, the first SIGINT or SIGTERM asks the loop to stop; a second one ends the program at once.
class StopOnSignal {
 public:
  StopOnSignal() {
    stop_asked = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { stop_asked = 1; };
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    ::sigaction(SIGINT, &action, &old_interrupt_);
    ::sigaction(SIGTERM, &action, &old_terminate_);
  }
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;
  ~StopOnSignal() {
    ::sigaction(SIGINT, &old_interrupt_, nullptr);
    ::sigaction(SIGTERM, &old_terminate_, nullptr);
  }
  static bool asked() { return stop_asked != 0; }

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_terminate_ {};
};

// Weight decay only for matrices: biases, norms' weights and the like are left alone.
std::unique_ptr<torch::optim::AdamW> make_optimizer(const TrainOptions& options,
                                                    const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> decayed, plain;
  for (const auto& [name, tensor] : parameters) (tensor.dim() >= 2 ? decayed : plain).push_back(tensor);
  const auto defaults = torch::optim::AdamWOptions(options.lr).betas({0.9, 0.95});
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (auto& [tensors, decay] : {std::pair{decayed, options.weight_decay}, std::pair{plain, 0.0}}) {
    if (tensors.empty()) continue;
    auto group_options = defaults;
    groups.emplace_back(tensors, std::make_unique<torch::optim::AdamWOptions>(group_options.weight_decay(decay)));
  }
  return std::make_unique<torch::optim::AdamW>(groups, defaults);
}

void update_in_eager(torch::optim::AdamW& optimizer, const at::Tensor& loss) {
  loss.backward();
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  torch::nn::utils::clip_grad_norm_(parameters, kClipNorm);
  optimizer.step();
  optimizer.zero_grad();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Comparison compare_with_eager(const TrainOptions& options, const Task& task, const TrainState& done) {
  Comparison result;
  result.steps = std::min(options.compare_eager, static_cast<int64_t>(done.losses.size()));
  TrainRun eager(options, task, "eager");
  Progress progress("the same in eager", 0, result.steps, task.units_per_step, options.unit);
  for (int64_t i = 0; i < result.steps && !StopOnSignal::asked(); ++i) {
    const float loss = eager.step(done.rates[i]);
    const double difference = std::abs(static_cast<double>(loss) - done.losses[i]);
    if (i == 0 || difference > result.largest) result.largest = difference, result.largest_at = i + 1;
    progress.update(i + 1, loss);
  }
  result.losses = eager.state().losses;
  result.steps = static_cast<int64_t>(result.losses.size());
  result.times = eager.times();
  return result;
}

// Where the run begins: the newest checkpoint, or nothing.
void start(const TrainOptions& options, const CheckpointFolder& folder, TrainRun& run) {
  if (options.fresh) folder.clear();
  const auto found = folder.newest();
  DIPTYCH_CHECK(found || !options.resume,
                "[train] --resume: there is no checkpoint in '{}'; leave it out to start, or give the right --out",
                options.out);
  if (!found) return;
  for (const auto& why : found->skipped)
    fmt::print(stderr, "{}: passing over a damaged checkpoint: {}\n", options.name, why);
  run.resume(*found);
  fmt::print(stderr, "{}: going on from {} (--fresh starts over)\n", options.name, found->path.string());
}

// Steps until the end or a signal, with checkpoints on the way; returns the path of the last one.
std::filesystem::path run_steps(const TrainOptions& options, const Task& task, const CheckpointFolder& folder,
                                TrainRun& run) {
  Progress progress(options.name, run.state().step, options.steps, task.units_per_step, options.unit);
  std::filesystem::path last;
  while (run.state().step < options.steps && !StopOnSignal::asked()) {
    const float loss = run.step();
    progress.update(run.state().step, loss);
    if (run.state().step % options.checkpoint_every == 0 && run.state().step < options.steps)
      last = folder.save(run.state(), options.run);
  }
  if (!run.times().empty()) last = folder.save(run.state(), options.run);
  return last;
}

void print_comparison(const TrainOptions& options, const Task& task, const TrainRun& run,
                      const Comparison& comparison) {
  fmt::print("{} steps against eager: largest difference of the loss {:.3g} (step {}), allowed {:g}\n",
             comparison.steps, comparison.largest, comparison.largest_at, kLossTolerance);
  const double ours = median_times(run.times()).total(), eager = median_times(comparison.times).total();
  if (ours > 0 && eager > 0) {
    fmt::print("speed, medians of whole steps: {} {:.0f} {}/s, eager {:.0f} {}/s ({:.2f} times eager)\n",
               options.backend, task.units_per_step / ours, options.unit, task.units_per_step / eager, options.unit,
               eager / ours);
  }
}

}  // namespace

double learning_rate(const TrainOptions& options, int64_t step) {
  const auto steps = static_cast<double>(options.steps), at = static_cast<double>(step);
  const double warm_up = std::clamp(0.05 * steps, 1.0, 100.0);
  if (at < warm_up) return options.lr * (at + 1) / warm_up;
  const double fraction = std::min((at - warm_up) / std::max(steps - warm_up, 1.0), 1.0);
  return options.lr * (kFinalRate + (1 - kFinalRate) * 0.5 * (1 + std::cos(std::numbers::pi * fraction)));
}

StepTimes median_times(const std::vector<StepTimes>& times) {
  const auto of = [&](double StepTimes::*phase) {
    std::vector<double> values;
    for (size_t i = std::min<size_t>(1, times.size() - 1); i < times.size(); ++i) values.push_back(times[i].*phase);
    return median(std::move(values));
  };
  if (times.empty()) return {};
  return {of(&StepTimes::forward), of(&StepTimes::update)};
}

TrainRun::TrainRun(const TrainOptions& options, const Task& task, const std::string& backend)
    : options_(options), task_(task) {
  torch::manual_seed(options.seed);
  model_ = task.build(backend);
  optimizer_ = make_optimizer(options, model_.parameters);
  if (backend != "eager") update_ = diptych::capture_step(*optimizer_, {.max_gradient_norm = kClipNorm});
  state_ = {.parameters = model_.parameters, .buffers = model_.buffers, .optimizer = optimizer_.get()};
  torch::manual_seed(options.seed);
}

void TrainRun::resume(const CheckpointFolder::Found& found) {
  for (const auto& [option, value] : options_.run) {
    const auto place = found.options.find(option);
    const std::string then = place == found.options.end() ? "(not there)" : place->second;
    DIPTYCH_CHECK(
        then == value,
        "[train] the checkpoint '{}' was made with {} {}, and this run has {}; give the same, start over with --fresh, "
        "or choose another --out",
        found.path.string(), option, then, value);
  }
  restore(found, state_);
}

float TrainRun::step(double rate) {
  for (auto& group : optimizer_->param_groups()) static_cast<torch::optim::AdamWOptions&>(group.options()).lr(rate);
  const Batch batch = task_.batch(state_.step);
  StepTimes times;
  Lap lap;
  const at::Tensor loss = model_.loss(batch);
  times.forward = lap.seconds();
  const float value = loss.item<float>();
  DIPTYCH_CHECK(std::isfinite(value), "[train] the loss of step {} is {}; try a smaller --lr than {}", state_.step + 1,
                value, options_.lr);
  if (update_) {
    (*update_)(loss);
  } else {
    update_in_eager(*optimizer_, loss);
  }
  times.update = lap.seconds();
  state_.losses.push_back(value);
  state_.rates.push_back(rate);
  ++state_.step;
  times_.push_back(times);
  return value;
}

int train(const TrainOptions& options, const Task& task) {
  check_report_path(options);
  task.batch(0);  // what is wrong with the data shows before anything is written
  TrainRun run(options, task, options.backend);
  const CheckpointFolder folder(options.out);
  start(options, folder, run);
  const StopOnSignal signals;
  const auto checkpoint = run_steps(options, task, folder, run);
  if (StopOnSignal::asked() && run.state().step < options.steps) {
    fmt::print("stopped after step {}; checkpoint {}; the same command goes on from there\n", run.state().step,
               checkpoint.string());
    return 0;
  }
  ReportData report{.options = options, .task = task, .run = run, .findings = run.model().evaluate()};
  if (options.compare_eager > 0 && options.backend != "eager" && !run.times().empty()) {
    report.comparison = compare_with_eager(options, task, run.state());
  }
  fmt::print("\n");
  for (const auto& finding : report.findings) fmt::print("{}: {}\n", finding.name, finding.text);
  if (report.comparison) print_comparison(options, task, run, *report.comparison);
  const auto paths = write_report(report);
  if (run.times().empty()) fmt::print("all {} steps were done before; --fresh trains anew\n", options.steps);
  if (!checkpoint.empty()) fmt::print("checkpoint: {}\n", checkpoint.string());
  fmt::print("loss curve: {}\nreport:     {}\n", paths.curve.string(), paths.page.string());
  return report.comparison && report.comparison->largest > kLossTolerance ? 1 : 0;
}

}  // namespace examples
