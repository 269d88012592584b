#include "diptych/interpreter/program.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/SmallVector.h>

#include <chrono>

#include "diptych/base/check.h"
#include "diptych/base/switches.h"
#include "diptych/interpreter/call_checks.h"
#include "diptych/interpreter/plan.h"
#include "diptych/ops/tags.h"

namespace diptych {

using namespace detail;

using detail::Frame;
using detail::Step;

struct Program::Plan {
  Plan(const Graph& source, const ProgramOptions& options)
      : graph(source),
        compiled(detail::compile(graph, options)),
        sizes(graph, compiled),
        may_check(options.is_checked) {}

  void check(const std::vector<at::Tensor>& inputs) const;
  void run_steps(Frame& frame, size_t& current) const;
  void run_steps_differentiably(Frame& frame, size_t& current) const;
  void run_steps_profiled(Frame& frame, size_t& current) const;
  void run_steps_checked(Frame& frame, size_t& current) const;
  bool is_made_for(const std::vector<at::Tensor>& inputs, const Frame& frame) const;
  void check_outputs(const Frame& frame, size_t index) const;
  std::vector<ProfileRow> empty_rows() const;
  int64_t output_bytes(const Frame& frame, size_t index) const;
  std::vector<std::string> operand_texts(const Frame& frame, size_t index) const;

  Graph graph;
  detail::Compiled compiled;
  detail::SizeResolver sizes;
  bool may_check;
};

namespace {

// "%7 = aten.mm"
std::string title(const Node& node) {
  std::string text;
  for (const Value value : node.outputs) {
    text += (text.empty() ? "" : ", ") + (value ? fmt::format("%{}", value.id) : std::string("none"));
  }
  return text + " = " + node.op.name();
}

// Runs a step over its operand if nobody else holds that, else out of place. Returns whether it ran in place.
inline bool call(const Step& step, Frame& frame) {
  if (step.reuse && detail::may_overwrite(*step.reuse, frame.registers[step.reuse->reference])) {
    step.reuse->caller->call(frame);
    return true;
  }
  step.caller->call(frame);
  return false;
}

inline void free_dead(const Step& step, const std::vector<int32_t>& dead, Frame& frame) {
  for (uint32_t i = step.dead_begin; i < step.dead_end; ++i) frame.registers[dead[i]].reset();
}

const std::map<std::string, int64_t>& symbols_of(const Frame& frame) {
  static const auto* const none = new std::map<std::string, int64_t>;
  return frame.dynamic == nullptr ? *none : frame.dynamic->symbols;
}

}  // namespace

void Program::Plan::check(const std::vector<at::Tensor>& inputs) const {
  DIPTYCH_CHECK(inputs.size() == graph.inputs().size(),
                "[interpreter] graph '{}' got {} inputs, expected {}; pass one tensor per input slot", graph.name(),
                inputs.size(), graph.inputs().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    DIPTYCH_CHECK(inputs[i].defined() || !compiled.required_inputs[i],
                  "[interpreter] input {} ({}) of graph '{}' is undefined, expected {}; pass a tensor, or use a graph "
                  "that was captured without it",
                  i, graph.input_slots()[i].path, graph.name(), type_string(graph.meta(graph.inputs()[i])));
  }
}

void Program::Plan::run_steps(Frame& frame, size_t& current) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const Step& step : compiled.steps) {
    call(step, frame);
    free_dead(step, compiled.dead, frame);
    ++current;
  }
}

void Program::Plan::run_steps_differentiably(Frame& frame, size_t& current) const {
  const auto* before = frame.options->before;
  for (const Step& step : compiled.steps) {
    if (before != nullptr) (*before)(graph.nodes()[current]);
    if (step.no_grad) {
      const at::NoGradGuard no_grad;
      step.caller->call(frame);
    } else {
      step.caller->call(frame);
    }
    free_dead(step, compiled.dead, frame);
    ++current;
  }
}

std::vector<ProfileRow> Program::Plan::empty_rows() const {
  std::vector<ProfileRow> rows;
  for (size_t i = 0; i < compiled.steps.size(); ++i) {
    const Node& node = graph.nodes()[i];
    const char* form = compiled.steps[i].is_direct ? "direct" : node.op.is_hop() ? "rule" : "boxed";
    rows.push_back({title(node), node.provenance.scope.str(), form});
  }
  return rows;
}

void Program::Plan::run_steps_profiled(Frame& frame, size_t& current) const {
  using Clock = std::chrono::steady_clock;
  std::optional<at::AutoDispatchBelowADInplaceOrView> below_autograd;
  if (!frame.options->differentiable) below_autograd.emplace();
  auto rows = empty_rows();
  for (const Step& step : compiled.steps) {
    auto& row = rows[current];
    std::optional<at::NoGradGuard> no_grad;
    if (frame.options->differentiable && step.no_grad) no_grad.emplace();
    const auto start = Clock::now();
    if (frame.options->differentiable) {
      step.caller->call(frame);
    } else if (call(step, frame)) {
      row.call = "in place";
    }
    row.total_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
    row.calls = 1;
    row.output_bytes = output_bytes(frame, current);
    free_dead(step, compiled.dead, frame);
    ++current;
  }
  frame.options->profile->add(rows);
}

// A graph may be run on tensors of other sizes if its nodes take them; what it says of its values is then not true.
bool Program::Plan::is_made_for(const std::vector<at::Tensor>& inputs, const Frame& frame) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorMeta& expected = graph.meta(graph.inputs()[i]);
    const bool fits = inputs[i].defined() && inputs[i].layout() == at::kStrided &&
                      detail::difference(expected, inputs[i], symbols_of(frame)).empty();
    if (!fits) return false;
  }
  return true;
}

void Program::Plan::check_outputs(const Frame& frame, size_t index) const {
  const Node& node = graph.nodes()[index];
  if (detail::has_tag(node.op, detail::Tag::kDataDependent)) return;  // a question asks what the sizes are
  const auto& outputs = compiled.steps[index].outputs;
  DIPTYCH_ASSERT(outputs.size() == node.outputs.size(), "{} has {} results, expected {} by the plan", node.op.name(),
                 node.outputs.size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i] < 0 || !frame.registers[outputs[i]].defined()) continue;
    const std::string found =
        detail::difference(graph.meta(node.outputs[i]), frame.registers[outputs[i]], symbols_of(frame));
    DIPTYCH_ASSERT(found.empty(), "result {} of node {} ({}) of graph '{}' is {}", i, index, title(node), graph.name(),
                   found);
  }
}

void Program::Plan::run_steps_checked(Frame& frame, size_t& current) const {
  std::optional<at::AutoDispatchBelowADInplaceOrView> below_autograd;
  if (!frame.options->differentiable) below_autograd.emplace();
  const auto* before = frame.options->differentiable ? frame.options->before : nullptr;
  for (const Step& step : compiled.steps) {
    if (before != nullptr) (*before)(graph.nodes()[current]);
    std::optional<at::NoGradGuard> no_grad;
    if (frame.options->differentiable && step.no_grad) no_grad.emplace();
    if (frame.options->differentiable) {
      step.caller->call(frame);
    } else {
      call(step, frame);
    }
    check_outputs(frame, current);
    free_dead(step, compiled.dead, frame);
    ++current;
  }
}

int64_t Program::Plan::output_bytes(const Frame& frame, size_t index) const {
  int64_t bytes = 0;
  for (const int32_t output : compiled.steps[index].outputs) {
    if (output < 0 || !frame.registers[output].defined()) continue;
    bytes += static_cast<int64_t>(frame.registers[output].numel() * frame.registers[output].itemsize());
  }
  return bytes;
}

std::vector<std::string> Program::Plan::operand_texts(const Frame& frame, size_t index) const {
  std::vector<std::string> texts;
  const auto& references = compiled.steps[index].operands;
  size_t i = 0;
  for_each_operand_value(graph.nodes()[index], [&](Value value) {
    const auto& tensor = frame.tensor(references[i++]);
    // A boxed call has moved its operands out of the frame; the graph's metadata describes them then.
    const bool is_known = tensor.defined() && tensor.layout() == at::kStrided && !at::isQIntType(tensor.scalar_type());
    texts.push_back(
        fmt::format("%{}: {}", value.id, type_string(is_known ? TensorMeta::of(tensor) : graph.meta(value))));
  });
  return texts;
}

Program::Program(const Graph& graph, const ProgramOptions& options) : plan_(std::make_unique<Plan>(graph, options)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

std::vector<at::Tensor> Program::run(std::vector<at::Tensor>&& inputs, const RunOptions& options) const {
  const auto& compiled = plan_->compiled;
  plan_->check(inputs);
  const auto dynamic = plan_->sizes.resolve(inputs);
  c10::SmallVector<at::Tensor, 32> registers(compiled.num_registers);
  Frame frame{registers.data(), compiled.constants.data(), dynamic.get(), &options, {}};
  const bool is_checked = checks_calls() && plan_->may_check && plan_->is_made_for(inputs, frame);
  for (size_t i = 0; i < inputs.size(); ++i) registers[i] = std::move(inputs[i]);
  for (const int32_t index : compiled.unused_inputs) registers[index].reset();

  size_t current = 0;
  try {
    if (options.profile != nullptr) {
      plan_->run_steps_profiled(frame, current);
    } else if (is_checked) {
      plan_->run_steps_checked(frame, current);
    } else if (options.differentiable) {
      plan_->run_steps_differentiably(frame, current);
    } else {
      plan_->run_steps(frame, current);
    }
  } catch (const std::exception&) {
    detail::rethrow_in_node(plan_->graph, current, plan_->operand_texts(frame, current));
  }

  // The emptied vector of inputs is used for the outputs: one allocation less per run.
  std::vector<at::Tensor> outputs = std::move(inputs);
  outputs.resize(compiled.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& source = compiled.outputs[i];
    if (source.is_last) {
      outputs[i] = std::move(registers[source.reference]);
    } else {
      outputs[i] = frame.tensor(source.reference);
    }
  }
  return outputs;
}

const Graph& Program::graph() const { return plan_->graph; }

size_t Program::num_registers() const { return plan_->compiled.num_registers; }

Program::CallCounts Program::call_counts() const {
  CallCounts counts;
  for (const auto& step : plan_->compiled.steps) {
    ++(step.is_direct ? counts.direct : counts.boxed);
    counts.reusing += step.reuse != nullptr ? 1 : 0;
  }
  return counts;
}

}  // namespace diptych
