// Follows one small function through every room and prints what each makes of it: layout_stages <stage>, for
// docs/layout.md, which shows these outputs.
#include <torch/autograd.h>
#include <torch/types.h>

#include <iostream>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/backend/interpreter_backend.h"
#include "diptych/diptych.h"
#include "diptych/scan_passes/pipeline.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/recorder.h"

namespace dp = diptych;

namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor function(const at::Tensor& x, const at::Tensor& w) {
  const auto block = dp::scope("block0");
  return (x * w).tanh().sum();
}

const at::Tensor x = torch::tensor({{0.5F, -1.0F}, {2.0F, 0.0F}});
const at::Tensor w = torch::tensor({{1.0F, 3.0F}, {-1.0F, 2.0F}}).requires_grad_();

void show(const char* name, const at::Tensor& tensor) {
  std::cout << name << " : " << tensor.toString() << ' ' << tensor.sizes()
            << (tensor.requires_grad() ? ", requires grad" : "");
  if (tensor.grad_fn()) std::cout << ", made by " << tensor.grad_fn()->name();
  std::cout << '\n';
}

void tensors() {
  show("x", x);
  show("w", w);
  show("y", function(x, w));
}

void trace() {
  dp::detail::Recorder recorder("traced");
  const dp::detail::TraceGuard guard(recorder);
  const auto print_value = [&](const char* name, const at::Tensor& stand_in) {
    std::cout << name << " stands for %" << recorder.value_of(stand_in).id
              << ", has no data, and autograd knows it as ";
    std::cout << (stand_in.grad_fn()         ? stand_in.grad_fn()->name()
                  : stand_in.requires_grad() ? "a leaf"
                                             : "a constant")
              << '\n';
  };
  const at::Tensor x_in = recorder.add_primal(x, {dp::SlotKind::kArgument, "x"});
  const at::Tensor w_in = recorder.add_primal(w, {dp::SlotKind::kArgument, "w"});
  const at::Tensor y = function(x_in, w_in);
  print_value("x", x_in);
  print_value("w", w_in);
  print_value("y", y);
  dp::Graph graph = recorder.graph();
  graph.set_outputs({recorder.value_of(y)}, {{dp::SlotKind::kOutput, "y"}});
  std::cout << graph.code();
}

dp::Joint joint_of() {
  const dp::FlatFunction flat = [](const Tensors& t) { return dp::FlatResult{{function(t[0], t[1])}, {"y"}}; };
  return dp::detail::JointCapture(flat, {x, w}, {"x", "w"}).joint();
}

void joint() { std::cout << joint_of().graph.code(); }

dp::Split split_of() { return dp::split_joint(dp::detail::lower_joint(joint_of(), {}), dp::min_cut()); }

void partition() {
  const dp::Split split = split_of();
  std::cout << split.forward.code() << split.backward.code() << dp::explain(split);
}

void count(const char* name, const dp::Graph& before, const dp::Graph& after) {
  std::cout << name << " : " << before.nodes().size() << " nodes, " << after.nodes().size() << " after the passes\n";
}

void passes() {
  const dp::Split split = split_of();
  count("forward", split.forward, dp::detail::lower(dp::detail::Stage::kForward, split.forward));
  count("backward", split.backward, dp::detail::lower(dp::detail::Stage::kBackward, split.backward));
}

void backend() {
  const auto executable =
      dp::detail::InterpreterBackend().compile(dp::detail::lower(dp::detail::Stage::kForward, split_of().forward));
  const auto& program = dynamic_cast<const dp::detail::InterpreterExecutable&>(*executable).program();
  const auto counts = program.call_counts();
  std::cout << "registers: " << program.num_registers() << "\ncalls: " << counts.direct << " direct, " << counts.boxed
            << " boxed, " << counts.reusing << " that may run in place\n";
  Tensors slots = executable->run({x, w.detach()});
  for (size_t i = 0; i < slots.size(); ++i)
    std::cout << "slot " << i << " : " << slots[i].toString() << ' ' << slots[i].sizes() << '\n';
}

void run() {
  const auto compiled =
      dp::aot_function(function, {.backend = "interpreter", .partition = dp::min_cut(), .argument_names = {"x", "w"}});
  const at::Tensor y = compiled(x, w);
  show("y", y);
  std::cout << "y == eager's: " << std::boolalpha << at::equal(y, function(x, w)) << '\n';
  y.backward();
  std::cout << "w.grad == eager's: " << at::equal(w.grad(), torch::autograd::grad({function(x, w)}, {w})[0]) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> stages{
      {"tensors", tensors}, {"trace", trace},     {"joint", joint}, {"partition", partition},
      {"passes", passes},   {"backend", backend}, {"run", run}};
  const auto found = argc == 2 ? stages.find(argv[1]) : stages.end();
  if (found == stages.end()) {
    std::cerr << "usage: layout_stages tensors|trace|joint|partition|passes|backend|run\n";
    return 2;
  }
  found->second();
}
