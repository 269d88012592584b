#include "diptych/compile/derivatives.h"

#include <ATen/ops/clone.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>

#include "diptych/autodiff/batched_tangents.h"
#include "diptych/autodiff/generator_states.h"
#include "diptych/autodiff/gradient_checks.h"
#include "diptych/base/check.h"
#include "diptych/base/last_error.h"
#include "diptych/compile/compiled_function.h"
#include "diptych/compile/second_order.h"
#include "diptych/graph/rewrite.h"
#include "diptych/interpreter/program.h"
#include "diptych/interpreter/run_guards.h"

namespace diptych::detail {

namespace ag = torch::autograd;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// One order of derivatives. Threads: any.
struct Derivatives::Level {
  Level(std::shared_ptr<const GraphSource> source, TracedValues traced, const std::vector<size_t>& starts);
  std::shared_ptr<const Level> next(const std::vector<bool>& defined) const;
  variable_list run(const variable_list& fed, const std::vector<at::Tensor>& generator_states) const;
  std::vector<Value> fed_values() const;

  std::shared_ptr<const GraphSource> source;
  TracedValues traced;
  std::vector<size_t> fed;                    ///< which of traced.from are given, in order
  std::vector<size_t> results;                ///< which of traced.to are defined
  std::vector<std::string> errors;            ///< per result: what a backward through it throws, where that is known
  std::vector<std::vector<bool>> depends;     ///< per result: on which of what is given it depends for autograd
  std::vector<std::vector<int64_t>> strides;  ///< of what is given
  std::unique_ptr<const Program> draws;       ///< null if nothing random is needed
  std::unique_ptr<const Program> program;
  mutable std::mutex mutex;
  mutable std::map<std::vector<bool>, std::shared_ptr<const Level>> known;
};

namespace {

std::vector<Slot> slots(SlotKind kind, size_t count) { return std::vector<Slot>(count, {kind, "value"}); }

/// What a call of a level's Function keeps for its backward.
struct Kept final : torch::CustomClassHolder {
  Kept(std::shared_ptr<const Derivatives::Level> one, std::vector<at::Tensor> states)
      : level(std::move(one)), generator_states(std::move(states)) {}
  std::shared_ptr<const Derivatives::Level> level;
  std::vector<at::Tensor> generator_states;
};

variable_list call(const c10::intrusive_ptr<Kept>& kept, const variable_list& fed);

bool requires_grad(const std::vector<bool>& depends, const variable_list& fed) {
  for (size_t i = 0; i < fed.size(); ++i) {
    if (depends[i] && fed[i].requires_grad()) return true;
  }
  return false;
}

// A backward that is asked for single gradients does not come to what throws, for that leads to none.
void throw_if_whole(const std::string& error) {
  const auto* info = ag::get_current_graph_task_exec_info();
  if (!error.empty() && (info == nullptr || info->empty())) throw std::runtime_error(error);
}

// Whether `output` is computed from `input`.
bool is_computed_from(const Graph& graph, Value output, Value input) {
  std::vector<bool> reached(graph.num_values());
  reached[input.id] = true;
  for (const Node& node : graph.nodes()) {
    bool reads = false;
    for_each_operand_value(node, [&](Value value) { reads = reads || reached[value.id]; });
    for (const Value made : node.outputs) {
      if (reads && made) reached[made.id] = true;
    }
  }
  return output && reached[output.id];
}

// A gradient is linear in what arrives, unless a Function's backward or a hook makes it another function of that. Then
// it matters what has arrived in all, and a level sees what arrives by one way alone.
void check_is_linear(const Derivatives::Level& level, const variable_list& fed, size_t num_primals) {
  for (size_t i = 0; i < fed.size(); ++i) {
    const size_t from = level.fed[i];
    if (from < num_primals || !fed[i].requires_grad() || from >= level.traced.outputs.size()) continue;
    DIPTYCH_CHECK(
        !is_computed_from(level.traced.graph, level.traced.outputs[from], level.traced.inputs[from]),
        "[second order] a Function's backward or a hook of the function is not linear in the gradient that it "
        "gets, and that gradient is differentiated, too; call backward without create_graph, or keep the "
        "Function or the hook outside the compiled function");
  }
}

struct LevelFunction : torch::autograd::Function<LevelFunction> {
  static variable_list forward(AutogradContext* ctx, const c10::intrusive_ptr<Kept>& kept, at::TensorList given) {
    const auto& level = *kept->level;
    const variable_list fed = given.vec();
    ctx->saved_data["kept"] = c10::IValue::make_capsule(kept);
    ctx->save_for_backward(fed);
    ctx->set_materialize_grads(false);
    variable_list found = level.run(fed, kept->generator_states), constant;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!requires_grad(level.depends[i], fed)) constant.push_back(found[i]);
    }
    ctx->mark_non_differentiable(constant);
    return found;
  }

  static variable_list backward(AutogradContext* ctx, variable_list tangents) {
    return called_by_engine([&] { return gradients_of(ctx, std::move(tangents)); });
  }

 private:
  static variable_list gradients_of(AutogradContext* ctx, variable_list&& tangents) {
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(ctx->saved_data["kept"].toCapsule());
    const auto& level = *kept->level;
    variable_list fed = ctx->get_saved_variables();
    const size_t num_fed = fed.size();
    std::vector<bool> defined(level.traced.to.size());
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (!tangents[i].defined() || !level.traced.to[level.results[i]].requires_grad()) continue;
      throw_if_whole(level.errors[i]);
      defined[level.results[i]] = true;
      fed.push_back(std::move(tangents[i]));
    }
    variable_list gradients(num_fed + 1);  // none for what is kept
    if (fed.size() == num_fed) return gradients;
    const auto next = level.next(defined);
    check_is_linear(*next, fed, level.traced.num_primals);
    const auto found = call(c10::make_intrusive<Kept>(next, kept->generator_states), fed);
    for (size_t i = 0; i < num_fed; ++i) gradients[i + 1] = found[level.fed[i]];
    return gradients;
  }
};

// Returns what arrives at each of the level's traced.from, or for the first level at each primal.
variable_list call(const c10::intrusive_ptr<Kept>& kept, const variable_list& fed) {
  const auto& level = *kept->level;
  variable_list all(level.traced.to.size());
  if (level.results.empty()) return all;
  variable_list laid;
  for (size_t i = 0; i < fed.size(); ++i) laid.push_back(laid_out(fed[i], level.strides[i]));
  auto found = LevelFunction::apply(kept, at::TensorList(laid));
  for (size_t i = 0; i < level.results.size(); ++i) all[level.results[i]] = std::move(found[i]);
  return all;
}

// A result that shares memory with an argument would be a view to autograd.
void own_memory(variable_list& found, const variable_list& given) {
  for (at::Tensor& result : found) {
    const bool shares =
        std::any_of(given.begin(), given.end(), [&](const at::Tensor& one) { return one.is_alias_of(result); });
    if (shares) result = result.clone();
  }
}

std::vector<bool> used_by(const Graph& graph) {
  std::vector<bool> used(graph.num_values());
  const auto mark = [&](Value value) { used[value.id] = true; };
  for (const Node& node : graph.nodes()) for_each_operand_value(node, mark);
  for (const Value output : graph.outputs()) mark(output);
  std::vector<bool> found;
  for (const Value input : graph.inputs()) found.push_back(used[input.id]);
  return found;
}

// Whether the history of `result` leads to each of these. What is differentiable once leads to a node that throws, and
// no further: it counts as depending on all. So does what depends on a primal that was changed in place, whose
// stand-in has another history since.
std::vector<bool> dependence(const at::Tensor& result, const TracedValues& values, const std::vector<size_t>& fed,
                             std::string& error) {
  if (!result.requires_grad()) return std::vector<bool>(fed.size());
  std::unordered_set<const ag::Node*> reached;
  reaches({ag::impl::gradient_edge(result)}, [&](ag::Node& node) {
    reached.insert(&node);
    if (const auto* thrower = dynamic_cast<const ag::Error*>(&node)) error = thrower->msg;
    return false;
  });
  std::vector<bool> found;
  for (const size_t i : fed) {
    const at::Tensor& one = values.from[i];
    const bool is_changed = i < values.num_primals && !one.is_leaf();
    const bool leads_there = one.requires_grad() && reached.contains(ag::impl::gradient_edge(one).function.get());
    found.push_back(!error.empty() || is_changed || leads_there);
  }
  return found;
}

// The numbers of the forward are drawn again with its generators set back. A backward that draws has drawn others, and
// would draw new ones in each call.
void check_draws_are_of_forward(const Graph& graph, const std::vector<Value>& random) {
  for (const Node& node : graph.nodes()) {
    const bool is_needed = std::any_of(node.outputs.begin(), node.outputs.end(), [&](Value output) {
      return std::find(random.begin(), random.end(), output) != random.end();
    });
    DIPTYCH_CHECK(!is_needed || node.provenance.phase == Phase::kForward,
                  "[second order] {} draws random numbers in a Function's backward or a hook, and the gradient is "
                  "differentiated again; call backward without create_graph, or draw in the forward",
                  node.op.name());
  }
}

}  // namespace

std::vector<Value> Derivatives::Level::fed_values() const {
  std::vector<Value> values;
  for (const size_t i : fed) values.push_back(traced.inputs[i]);
  return values;
}

// The tangents are always given, and of the primals those of `starts`.
Derivatives::Level::Level(std::shared_ptr<const GraphSource> of, TracedValues values, const std::vector<size_t>& starts)
    : source(std::move(of)), traced(std::move(values)), fed(starts) {
  const Graph& graph = traced.graph;
  const size_t num_primals = traced.num_primals;
  for (size_t i = num_primals; i < traced.inputs.size(); ++i) fed.push_back(i);
  std::vector<Value> outputs;
  for (size_t i = 0; i < traced.outputs.size(); ++i) {
    if (!traced.outputs[i]) continue;
    results.push_back(i);
    outputs.push_back(traced.outputs[i]);
  }
  const auto random = random_values(graph, outputs);
  check_draws_are_of_forward(graph, random);
  std::vector<Value> all(traced.inputs);
  all.insert(all.end(), random.begin(), random.end());
  const Graph whole = extract(graph, "derivatives", all, slots(SlotKind::kArgument, all.size()), outputs,
                              slots(SlotKind::kGradient, outputs.size()));
  const auto is_used = used_by(whole);
  for (size_t i = 0; i < num_primals; ++i) {
    DIPTYCH_CHECK(!is_used[i] || std::find(starts.begin(), starts.end(), i) != starts.end(),
                  "[second order] the derivative of a gradient depends on '{}', on which the gradient does not; call "
                  "backward without create_graph, or keep the Function that reads it outside the compiled function",
                  graph.input_slots()[i].path);
  }
  for (const size_t i : results) depends.push_back(dependence(traced.to[i], traced, fed, errors.emplace_back()));
  std::vector<Value> inputs = fed_values();
  for (const Value value : inputs) strides.push_back(graph.meta(value).stride_hints());
  if (!random.empty()) {
    draws = std::make_unique<Program>(extract(graph, "draws", inputs, slots(SlotKind::kArgument, inputs.size()), random,
                                              slots(SlotKind::kOutput, random.size()), random_nodes(graph)));
  }
  inputs.insert(inputs.end(), random.begin(), random.end());
  program = std::make_unique<Program>(extract(graph, "derivatives", inputs, slots(SlotKind::kArgument, inputs.size()),
                                              outputs, slots(SlotKind::kGradient, outputs.size())));
}

std::shared_ptr<const Derivatives::Level> Derivatives::Level::next(const std::vector<bool>& defined) const {
  const std::lock_guard<std::mutex> lock(mutex);
  auto& level = known[defined];
  if (level) return level;
  const size_t num_primals = traced.num_primals;
  const std::vector<size_t> starts(fed.begin(),
                                   std::find_if(fed.begin(), fed.end(), [&](size_t i) { return i >= num_primals; }));
  auto made = std::make_shared<const Level>(source, source->captured().derivatives(traced, defined), starts);
  for (const size_t i : made->results) {
    DIPTYCH_CHECK(i >= num_primals || std::find(starts.begin(), starts.end(), i) != starts.end(),
                  "[second order] a gradient has a derivative with respect to '{}', on which it does not depend; call "
                  "backward without create_graph, or keep the Function that returns it outside the compiled function",
                  traced.graph.input_slots()[i].path);
  }
  return level = std::move(made);
}

variable_list Derivatives::Level::run(const variable_list& given, const std::vector<at::Tensor>& states) const {
  const RunBelowAutograd below;
  variable_list inputs;
  for (const at::Tensor& one : given) inputs.push_back(one.detach());
  if (draws) {
    const Rewind rewind(generators_of(draws->graph()), states);
    for (at::Tensor& draw : draws->run(variable_list(inputs))) inputs.push_back(std::move(draw));
  }
  variable_list found = program->run(std::move(inputs));
  own_memory(found, given);
  return found;
}

Derivatives::Derivatives(std::shared_ptr<const GraphSource> source, TracedValues gradients,
                         const std::vector<size_t>& starts)
    : first_(std::make_shared<const Level>(std::move(source), std::move(gradients), starts)) {}

Derivatives::~Derivatives() = default;

std::vector<at::Tensor> Derivatives::gradients(const std::vector<at::Tensor>& starts,
                                               const std::vector<at::Tensor>& tangents,
                                               const std::vector<at::Tensor>& generator_states) const {
  variable_list fed = starts;
  for (const at::Tensor& tangent : tangents) {
    if (tangent.defined()) fed.push_back(tangent);
  }
  DIPTYCH_CHECK(!is_transformed(fed),
                "[second order] the gradient depends on the result of a torch.autograd.Function or on a tensor with a "
                "hook, and is differentiated inside of a transform, which a graph does not do; write the rule with "
                "custom_vjp, or keep that Function outside the compiled function");
  return call(c10::make_intrusive<Kept>(first_, generator_states), fed);
}

}  // namespace diptych::detail
