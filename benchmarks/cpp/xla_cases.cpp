// The XLA suite: a value and its gradients by each of our engines, and what XLA's backend does before the first run.
#include <array>
#include <string>

#include "calls.h"
#include "diptych/backend/fallback.h"
#include "diptych/diptych.h"
#include "diptych/xla/hlo/lower_body.h"
#include "diptych/xla/hlo/lower_graph.h"
#include "diptych/xla/pjrt/pjrt_program.h"
#include "diptych/xla/xla_backend.h"
#include "gradient_case.h"
#include "rnn.h"
#include "suites.h"

namespace diptych::bench {
namespace {

constexpr std::array kModels{"mlp", "gpt", "gpt2", "resnet18", "rnn"};
// ResNet-18 takes variances of eight numbers, which magnify rounding.
constexpr double kTolerance = 1e-3;
constexpr RnnShape kRnn{/*length=*/1024, /*batch=*/32, /*hidden=*/256};

Model model_of(const std::string& name, Fill fill) {
  return name == "rnn" ? rnn(kRnn, States::kAll, fill) : make_model(name, fill);
}

at::Tensor eager_loss_of(const std::string& name, const Model& model) {
  if (name == "rnn") return rnn_in_eager(model.params, model.params.back(), States::kAll);
  return model.loss(model.params, model.buffers, model.data)[0];
}

/// Returns the function that is captured: (parameters, buffers, data) -> loss.
std::function<at::Tensor(const Tensors&, const Tensors&, const Tensors&)> captured_loss(const std::string& name) {
  if (name == "rnn") {
    return [](const Tensors& p, const Tensors&, const Tensors&) { return rnn_by_scan(p, p.back(), States::kAll); };
  }
  return [loss = make_model(name, Fill::kUntouched).loss](const Tensors& p, const Tensors& b, const Tensors& d) {
    return loss(p, b, d)[0];
  };
}

GradientCase step_case(const std::string& name, GradientCase::Loss loss, bool checked) {
  GradientCase::Parts parts{.name = "xla/step/" + name,
                            .make = [name] { return model_of(name, Fill::kValues); },
                            .loss = std::move(loss),
                            .tolerance = kTolerance,
                            .measures_memory = false};
  if (checked) parts.eager = [name](const Model& model) { return eager_loss_of(name, model); };
  return GradientCase(std::move(parts));
}

GradientCase compiled_step(const std::string& name, const std::string& backend) {
  const auto compiled = aot_function(captured_loss(name), {.backend = backend, .name = name});
  const auto loss = [compiled](const Model& model) { return compiled(model.params, model.buffers, model.data); };
  return step_case(name, loss, /*checked=*/true);
}

/// Lowers what XLA's backend takes, and stops there.
class LoweringBackend final : public Backend {
 public:
  explicit LoweringBackend(std::vector<std::string>& modules) : modules_(modules) {}
  std::string name() const override { return "lowering"; }
  Graph prepare(const Graph& graph) const override { return xla_.prepare(graph); }
  bool supports(const Graph& graph, const Node& node) const override { return xla_.supports(graph, node); }
  std::shared_ptr<const Executable> compile(const Graph& graph) const override {
    modules_.push_back(detail::lower_graph(detail::in_lowered_operators(graph)).text);
    return std::make_shared<NotRun>();
  }

 private:
  class NotRun final : public Executable {
    std::vector<at::Tensor> run(std::vector<at::Tensor>&&) const override {
      throw std::logic_error("a module that was not compiled");
    }
  };
  detail::XlaBackend xla_;
  std::vector<std::string>& modules_;
};

Pair pair_of(const std::string& name, const Model& model) {
  return capture_with({.name = name}, captured_loss(name), model.params, model.buffers, model.data);
}

void compile(const Backend& backend, const Pair& pair) {
  for (const Graph* graph : {&pair.forward, &pair.backward}) detail::compile_with_fallback(backend, *graph);
}

/// From the function to the text of both modules.
Reply run_lowering(const std::string& name, int repeat) {
  const Model model = model_of(name, Fill::kUntouched);
  size_t bytes = 0;
  auto times = timed(repeat, [&] {
    std::vector<std::string> modules;
    compile(LoweringBackend(modules), pair_of(name, model));
    bytes = 0;
    for (const std::string& module : modules) bytes += module.size();
  });
  return {std::move(times), {{"text_bytes", bytes}}};
}

/// What the plugin takes for a call of two_elements: inputs are passed, its forward's program runs, results are there.
Reply run_program_alone(int repeat) {
  const auto inputs = two_element_inputs();
  const auto client = detail::PjrtClient::shared();
  const auto module = detail::lower_graph(capture(two_elements, inputs[0], inputs[1]).forward);
  const detail::PjrtProgram program(client, module.text);
  return {timed_in_batches(repeat, [&] {
    detail::PjrtProgram::Buffers arguments;
    for (const auto& slot : module.inputs) {
      arguments.push_back(detail::PjrtBuffer::from_tensor(client, inputs[slot.index].detach()));
    }
    for (const auto& result : program.run(arguments)) result->wait();
  })};
}

/// From both graphs to programs that are ready to run, which is nearly all the plugin's time.
Reply run_compilation(const std::string& name, int repeat) {
  const Pair pair = pair_of(name, model_of(name, Fill::kUntouched));
  return {timed(repeat, [&] { compile(detail::XlaBackend(), pair); })};
}

}  // namespace

Cases xla_program_cases() { return {{"call/forward", run_program_alone}}; }

void add_xla_steps(Cases& cases) {
  for (const std::string name : kModels) cases["xla/step/" + name] = compiled_step(name, "interpreter");
}

void add_eager_xla_steps(Cases& cases) {
  for (const std::string name : kModels) {
    const auto loss = [name](const Model& model) { return eager_loss_of(name, model); };
    cases["xla/step/" + name] = step_case(name, loss, /*checked=*/false);
  }
}

Cases diptych_xla_cases() {
  Cases cases;
  for (const std::string name : kModels) {
    cases["xla/step/" + name] = compiled_step(name, "xla");
    cases["xla/lower/" + name] = [name](int repeat) { return run_lowering(name, repeat); };
    cases["xla/compile/" + name] = [name](int repeat) { return run_compilation(name, repeat); };
  }
  add_xla_training(cases);
  add_call_cases(cases, aot_function(two_elements, {.backend = "xla", .name = "two_elements"}));
  return cases;
}

}  // namespace diptych::bench
