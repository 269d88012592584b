#include "diptych/backward/eager_nodes.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "diptych/backward/current_node.h"
#include "diptych/base/check.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/interpreter/program.h"
#include "diptych/ops/hop_schemas.h"
#include "diptych/trace/node_hooks.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

thread_local EagerRun* innermost = nullptr;

EagerCall eager_call_of(const Node& node) {
  const auto attributes = HopAttributes::of(node);
  return {static_cast<size_t>(attributes.integer("call")),
          static_cast<EagerStage>(attributes.integer("stage")),
          attributes.flags("given"),
          decode_maybe_undefined(attributes.integers("maybe_undefined")),
          attributes.flags("wanted"),
          attributes.integer("first_number")};
}

// Gives a result the layout that was captured: that of what a hook was given, if that is dense, else a contiguous one.
// With other strides, later views would be illegal, or read other elements.
at::Tensor laid_out(const ag::Node& node, at::Tensor result, const at::Tensor& given) {
  if (result.layout() != at::kStrided) return result;
  const bool is_like_given = given.defined() && given.layout() == at::kStrided;
  if (is_like_given) {
    DIPTYCH_CHECK(result.sizes() == given.sizes() && result.dtype() == given.dtype(),
                  "[backward] a hook of {} got a gradient of sizes {} and dtype {} and returned one of sizes {} and "
                  "dtype {}; return one of the same sizes and dtype, or call backward() without a BackwardCapture",
                  node.name(), given.sizes(), dtype_name(given.scalar_type()), result.sizes(),
                  dtype_name(result.scalar_type()));
  }
  const bool has_layout = is_like_given && given.is_non_overlapping_and_dense();
  if (has_layout && result.strides() != given.strides()) {
    return at::empty_strided(given.sizes(), given.strides(), result.options()).copy_(result);
  }
  return has_layout ? result : result.contiguous();
}

// Returns zeros for a gradient of a node's inputs, or for one that goes into the node.
at::Tensor zeros_for(const ag::Node& node, EagerStage stage, size_t index) {
  if (stage == EagerStage::kTensorHooks || stage == EagerStage::kPreHooks)
    return node.input_metadata(index).zeros_like();
  const ag::Edge& edge = node.next_edge(index);
  return edge.function->input_metadata(edge.input_nr).zeros_like();
}

// Adds gradients as the engine does: a sparse one comes second where nobody differentiates the sum.
at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  const bool comes_second = !c10::GradMode::is_enabled() && a.layout() != at::kStrided;
  return comes_second ? at::add(b, a) : at::add(a, b);
}

/// How many tensors a stage of a node takes and returns.
struct Arity {
  size_t inputs;
  size_t results;
};

Arity arity_of(const ag::Node& node, EagerStage stage) {
  switch (stage) {
    case EagerStage::kTensorHooks:
    case EagerStage::kPreHooks:
      return {node.num_inputs(), node.num_inputs()};
    case EagerStage::kPostHooks:
      return {node.num_outputs() + node.num_inputs(), node.num_outputs()};
    case EagerStage::kSum:
      return {2, 1};
    case EagerStage::kNode:
    case EagerStage::kBareNode:
      break;
  }
  return {node.num_inputs(), node.num_outputs()};
}

}  // namespace

const HopSchema& autograd_node_schema() {
  static const HopSchema* const known = [] {
    const HopSchema* const added = add_hop_schema(
        "autograd_node(Tensor[] gradients, int call, int stage, bool[] given, int[] maybe_undefined, bool[] wanted, "
        "int "
        "first_number)",
        {});
    register_interpreter_rule(*added, [](const Node& node) -> HopKernel {
      return [eager = eager_call_of(node)](std::vector<c10::IValue>&& operands, const RunOptions& /*options*/) {
        return EagerRun::current().call(eager, take_tensor_list(operands[0]));
      };
    });
    return added;
  }();
  return *known;
}

Node make_eager_node(const EagerCall& eager, const std::vector<Value>& operands) {
  return make_hop_node(autograd_node_schema(), {operands},
                       {autograd_node_schema(),
                        {{"call", static_cast<int64_t>(eager.call)},
                         {"stage", static_cast<int64_t>(eager.stage)},
                         {"given", flags_attribute(eager.is_given)},
                         {"maybe_undefined", encode_maybe_undefined(eager.maybe_undefined)},
                         {"wanted", flags_attribute(eager.is_wanted)},
                         {"first_number", eager.first_number}}});
}

ag::variable_list call_hooks(ag::Node& node, EagerStage stage, ag::variable_list gradients) {
  if (stage == EagerStage::kPreHooks) return hooked(node.pre_hooks(), std::move(gradients));
  if (stage == EagerStage::kTensorHooks) {
    gradients = hooked(node.tensor_pre_hooks(), std::move(gradients));
    for (const auto& [output, hook] : node.retains_grad_hooks()) gradients = (*hook)(gradients);
    return gradients;
  }
  const auto middle = gradients.begin() + static_cast<std::ptrdiff_t>(node.num_outputs());
  const ag::variable_list given(middle, gradients.end());
  ag::variable_list outputs(gradients.begin(), middle);
  gradients.clear();
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, given);
  return outputs;
}

void drop_history(at::Tensor& gradient) {
  if (!c10::GradMode::is_enabled() && gradient.defined() && gradient.requires_grad()) gradient = gradient.detach();
}

EagerRun::EagerRun(const std::vector<RunCall>& calls, size_t num_numbers, bool keeps_graph, const MaybeUndefined& dense)
    : calls_(calls),
      keeps_graph_(keeps_graph),
      undefined_(num_numbers),
      dense_(dense),
      keys_(c10::impl::tls_local_dispatch_key_set()),
      outer_(innermost) {
  innermost = this;
}

EagerRun::~EagerRun() { innermost = outer_; }

EagerRun& EagerRun::current() {
  DIPTYCH_CHECK(innermost != nullptr,
                "[backward] the graph of a captured backward calls autograd nodes of a live backward, but was run "
                "outside one; call backward() while a BackwardCapture is alive");
  return *innermost;
}

bool EagerRun::is_undefined(const MaybeUndefined& maybe_undefined) const {
  return !maybe_undefined.empty() && std::all_of(maybe_undefined.begin(), maybe_undefined.end(),
                                                 [&](int64_t number) { return undefined_[number]; });
}

// Checks in every build, as it costs little: where a graph and the run disagreed, memory out of bounds would be read.
void EagerRun::check(const EagerCall& eager, const std::vector<at::Tensor>& operands) const {
  DIPTYCH_ASSERT(eager.call < calls_.size(), "the graph runs node {} of a run of {} nodes", eager.call, calls_.size());
  const ag::Node& node = *calls_[eager.call].node;
  const auto [num_inputs, num_results] = arity_of(node, eager.stage);
  const auto num_given = static_cast<size_t>(std::count(eager.is_given.begin(), eager.is_given.end(), true));
  const auto num_wanted = static_cast<size_t>(std::count(eager.is_wanted.begin(), eager.is_wanted.end(), true));
  DIPTYCH_ASSERT(
      eager.is_given.size() == num_inputs && eager.is_wanted.size() == num_results,
      "the graph calls {} (call {}) with {} gradients for {} results, but in this run it takes {} and returns {}",
      node.name(), eager.call, eager.is_given.size(), eager.is_wanted.size(), num_inputs, num_results);
  DIPTYCH_ASSERT(
      operands.size() == num_given && eager.maybe_undefined.size() == num_given &&
          static_cast<size_t>(eager.first_number) + num_wanted <= undefined_.size(),
      "{} (call {}) has {} operands, {} lists of numbers and results from number {} on, expected {} operands of {} "
      "numbers",
      node.name(), eager.call, operands.size(), eager.maybe_undefined.size(), eager.first_number, num_given,
      undefined_.size());
}

std::vector<at::Tensor> EagerRun::call(const EagerCall& eager, std::vector<at::Tensor>&& operands) {
  const c10::impl::ForceDispatchKeyGuard keys(keys_);
  check(eager, operands);
  last_call_ = eager.call;
  // The tensors that results are laid out like. A sum is laid out like its first operand, even one that is undefined.
  std::vector<at::Tensor> like;
  if (eager.stage == EagerStage::kSum) like = {operands[0]};
  std::vector<at::Tensor> inputs(eager.is_given.size());
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!eager.is_given[i]) continue;
    if (!is_undefined(eager.maybe_undefined[next])) inputs[i] = std::move(operands[next]);
    drop_history(inputs[i]);
    ++next;
  }
  operands.clear();
  const bool is_around_node = eager.stage != EagerStage::kNode && eager.stage != EagerStage::kBareNode;
  if (is_around_node && like.empty()) like = inputs;
  return wanted_of(eager, run_stage(eager, std::move(inputs)), like);
}

std::vector<at::Tensor> EagerRun::wanted_of(const EagerCall& eager, std::vector<at::Tensor>&& results,
                                            const std::vector<at::Tensor>& like) {
  const ag::Node& node = *calls_[eager.call].node;
  results.resize(std::max(results.size(), eager.is_wanted.size()));
  std::vector<at::Tensor> wanted;
  for (size_t i = 0; i < eager.is_wanted.size(); ++i) {
    if (!eager.is_wanted[i]) continue;
    const int64_t number = eager.first_number + static_cast<int64_t>(wanted.size());
    undefined_[number] = !results[i].defined();
    DIPTYCH_CHECK(!results[i].defined() || results[i].layout() == at::kStrided ||
                      std::find(dense_.begin(), dense_.end(), number) == dense_.end(),
                  "[step] {} returns a gradient of layout {} for a parameter, expected a strided one; leave out "
                  "sparse=true, or call backward() and the optimizer's own step()",
                  node.name(), c10::str(results[i].layout()));
    const at::Tensor given = i < like.size() ? like[i] : at::Tensor();
    if (results[i].defined()) {
      wanted.push_back(laid_out(node, std::move(results[i]), given));
    } else {
      wanted.push_back(given.defined() ? at::zeros_like(given) : zeros_for(node, eager.stage, i));
    }
  }
  return wanted;
}

std::vector<at::Tensor> EagerRun::run_stage(const EagerCall& eager, std::vector<at::Tensor>&& inputs) const {
  ag::Node& node = *calls_[eager.call].node;
  const CurrentNode current(calls_[eager.call].node);
  switch (eager.stage) {
    case EagerStage::kTensorHooks:
    case EagerStage::kPreHooks:
    case EagerStage::kPostHooks:
      return call_hooks(node, eager.stage, std::move(inputs));
    case EagerStage::kSum:
      return {sum_of(inputs[0], inputs[1])};
    case EagerStage::kBareNode:
      return run_bare_node(node, std::move(inputs));
    case EagerStage::kNode:
      break;
  }
  return run_node(node, std::move(inputs));
}

std::vector<at::Tensor> EagerRun::run_node(ag::Node& node, std::vector<at::Tensor>&& inputs) const {
  inputs = hooked(node.pre_hooks(), std::move(inputs));
  const ag::variable_list kept = node.post_hooks().empty() ? ag::variable_list() : inputs;
  ag::variable_list outputs = run_bare_node(node, std::move(inputs));
  for (const auto& hook : node.post_hooks()) outputs = (*hook)(outputs, kept);
  if (!keeps_graph_) node.release_variables();
  return outputs;
}

// A post-hook may still look at what the node has saved, so it is released after the hooks, or when the run ends.
std::vector<at::Tensor> EagerRun::run_bare_node(ag::Node& node, std::vector<at::Tensor>&& inputs) const {
  if (!keeps_graph_) node.will_release_variables();
  ag::variable_list outputs = node(std::move(inputs));
  validate_outputs_of(node, node.next_edges(), outputs);
  return outputs;
}

}  // namespace diptych::detail
