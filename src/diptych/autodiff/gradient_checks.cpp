#include "diptych/autodiff/gradient_checks.h"

#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "diptych/base/check.h"
#include "diptych/trace/custom_function.h"
#include "diptych/trace/node_hooks.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {

namespace ag = torch::autograd;

namespace {

bool is_made_outside(const OutputPlan& output) {
  return output.kind == OutputPlan::Kind::kOfPrimal || output.kind == OutputPlan::Kind::kOfSlot ||
         output.kind == OutputPlan::Kind::kRegenerated;
}

// Reads grad_fn without regenerating it: grad_fn() of a view whose base has changed makes it again, and throws for some
// views that nobody uses.
ag::Node* node_of(const at::Tensor& tensor) {
  const auto* meta = ag::impl::get_autograd_meta(tensor);
  return meta == nullptr ? nullptr : meta->grad_fn_.get();
}

// Whether a gradient that arrives at a tensor passes a hook before it comes to one of `ends`.
bool meets_hook(const at::Tensor& tensor, const std::unordered_set<const ag::Node*>& hooked,
                const std::unordered_set<const ag::Node*>& ends) {
  ag::Node* node = node_of(tensor);
  while (node != nullptr && !ends.contains(node)) {
    if (has_hooks(*node) || hooked.contains(node)) return true;
    node = node->num_outputs() == 0 ? nullptr : node->next_edge(0).function.get();
  }
  return false;
}

bool has_tensor_hooks(const Primal& primal) {
  if (!primal.edge.is_valid()) return false;
  // A leaf's hooks are kept with the leaf until its accumulator runs.
  return !primal.edge.function->tensor_pre_hooks().empty() || !ag::impl::hooks(primal.stand_in).empty();
}

// A hook stays with the tensor that it is registered on when the call is over. A tensor from outside would have one
// more with each call, for all of its gradient, and a result's hooks come before those that its caller adds, while a
// graph comes behind them. In a body that is so of what it captures; its arguments and results are a loop's own.
void check_hooks_go(const Recorder& recorder, const OutputAnalysis& analysis, size_t num_arguments,
                    const CaptureOptions& options) {
  const auto refuse = [&](const std::string& what) {
    if (options.accumulates) throw TransformMet("the function registers a hook on " + what);
    DIPTYCH_CHECK(
        false,
        "[capture] the function registers a hook on {}, or retains its gradient, which that tensor would keep "
        "after the call; do it outside the function, or on a clone",
        what);
  };
  const auto& primals = recorder.primals();
  const size_t begin = options.accumulates ? primals.size() : options.exact_outputs ? num_arguments : 0;
  for (size_t i = begin; i < primals.size(); ++i) {
    const bool retains = primals[i].edge.is_valid() && primals[i].stand_in.retains_grad();
    if (retains || has_tensor_hooks(primals[i])) refuse(fmt::format("'{}'", primals[i].slot.path));
  }
  for (const auto& slot : analysis.slots) {
    ag::Node* const node = options.exact_outputs || !slot.tensor.defined() ? nullptr : node_of(slot.tensor);
    if (node != nullptr && !node->tensor_pre_hooks().empty()) refuse(fmt::format("output '{}'", slot.path));
  }
}

// Refuses hooks that would miss gradients. The function's hooks run inside the graph; an argument that is returned as
// it is gets its gradient outside, and so do views that are taken again there.
void check_hooks(const Recorder& recorder, const std::vector<at::Tensor>& outputs, const OutputAnalysis& analysis) {
  std::unordered_set<const ag::Node*> hooked, inside;
  for (const auto& primal : recorder.primals()) {
    if (!has_tensor_hooks(primal)) continue;
    hooked.insert(primal.edge.function.get());
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](const at::Tensor& output) { return output.is_same(primal.stand_in); });
    DIPTYCH_CHECK(
        found == outputs.end(),
        "[capture] the function registers a hook on '{}' and returns it as output '{}', so the hook would not see the "
        "gradient that arrives at the output; register the hook outside the function, or return a clone",
        primal.slot.path, analysis.plan.output_paths[static_cast<size_t>(found - outputs.begin())]);
  }
  for (const auto& slot : analysis.slots) {
    if (slot.tensor.defined()) inside.insert(node_of(slot.tensor));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    DIPTYCH_CHECK(!is_made_outside(analysis.plan.outputs[i]) || !meets_hook(outputs[i], hooked, inside),
                  "[capture] output '{}' is a view that is taken again outside the graph, and the function registers a "
                  "hook on it or on its base, so the hook would not see the gradient that arrives at the output; "
                  "register the hook outside the function, or return a clone",
                  analysis.plan.output_paths[i]);
  }
}

// Without stages an output's gradient is what arrives from outside; the function's other results would add to it inside
// the graph.
void check_retained(const OutputAnalysis& analysis) {
  const auto edge_of = [&](size_t slot) { return ag::impl::gradient_edge(analysis.slots[slot].tensor); };
  const auto& differentiable = analysis.plan.differentiable;
  for (const size_t slot : differentiable) {
    if (slot >= analysis.plan.outputs.size() || !analysis.plan.outputs[slot].retains_grad) continue;
    ag::edge_list others;
    for (const size_t other : differentiable) {
      if (other != slot && edge_of(other).function != edge_of(slot).function) others.push_back(edge_of(other));
    }
    DIPTYCH_CHECK(
        !reaches(others, [&](const ag::Node& node) { return &node == edge_of(slot).function.get(); }),
        "[capture] output '{}' retains its gradient, but part of that gradient arises inside the graph, from other "
        "results that are computed from the output; compute them outside the function, or return a view of the output",
        analysis.slots[slot].path);
  }
}

// Refuses reentrant checkpoints: these run a backward of their own, which fills .grad, and only in a backward that
// fills .grad as well.
void check_checkpoints(const OutputAnalysis& analysis) {
  ag::edge_list roots;
  for (const size_t slot : analysis.plan.differentiable) {
    roots.push_back(ag::impl::gradient_edge(analysis.slots[slot].tensor));
  }
  const auto is_reentrant = [](const ag::Node& node) {
    return is_python_function(node) && node.name() == "CheckpointFunctionBackward";
  };
  DIPTYCH_CHECK(
      !reaches(roots, is_reentrant),
      "[capture] the function calls torch.utils.checkpoint with use_reentrant=True, whose backward accumulates into "
      ".grad, and a graph can't do that; pass use_reentrant=False, or use Diptych's checkpoint()");
}

}  // namespace

void check_gradients_pass(const Recorder& recorder, const std::vector<at::Tensor>& outputs,
                          const OutputAnalysis& analysis, size_t num_arguments, const CaptureOptions& options) {
  check_checkpoints(analysis);
  check_hooks(recorder, outputs, analysis);
  check_hooks_go(recorder, analysis, num_arguments, options);
  if (!options.stages) check_retained(analysis);
}

}  // namespace diptych::detail
