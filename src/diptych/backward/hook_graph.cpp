#include "diptych/backward/hook_graph.h"

#include <torch/csrc/autograd/cpp_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "diptych/backward/register_hook.h"
#include "diptych/backward/run_key.h"

namespace diptych::detail {

namespace ag = torch::autograd;

namespace {

HookReader reader = nullptr;

// Whether a pass adds to memory that a tensor lies in.
bool is_accumulated_in(const at::Tensor& tensor, const std::vector<RunCall>& calls) {
  return std::any_of(calls.begin(), calls.end(), [&](const RunCall& call) {
    if (!call.needed || !accumulates(*call.node)) return false;
    const at::Tensor& gradient = static_cast<const torch::autograd::AccumulateGrad&>(*call.node).variable.grad();
    return gradient.defined() && gradient.has_storage() && gradient.storage().is_alias_of(tensor.storage());
  });
}

/// A hook of register_hook(), and which of the node's gradients it is for.
struct Placed {
  const ComputingHook* hook;
  size_t place;
};

// Returns the hooks of a stage if register_hook() has registered all of them; else none. The type is compared by its
// mangled name, since torch does not export it.
std::vector<Placed> computing_hooks(const ag::Node& node, EagerStage stage) {
  auto& asked = const_cast<ag::Node&>(node);
  if (stage != EagerStage::kTensorHooks) return {};
  std::vector<Placed> found;
  for (const auto& hooks : asked.tensor_pre_hooks()) {
    const auto& known = *hooks;
    if (std::string_view(typeid(known).name()).find("CppFunctionTensorPreHook") == std::string_view::npos) return {};
    const auto& of_tensor = static_cast<const ag::CppFunctionTensorPreHook&>(known);
    for (const auto& hook : *of_tensor.hooks_) {
      if (!hook) continue;  // removed
      found.push_back({hook.target<ComputingHook>(), of_tensor.value_idx_});
      if (found.back().hook == nullptr) return {};
    }
  }
  return found;
}

/// Hooks of register_hook().
struct ComputingHooks final : HookGraph {
  ComputingHooks(const std::vector<Placed>& of_stage, const ag::variable_list& gradients) {
    for (const at::Tensor& gradient : gradients) is_given.push_back(gradient.defined());
    for (const auto& [hook, place] : of_stage) {
      hooks.emplace_back(*hook, place);
      read.insert(read.end(), hook->read().begin(), hook->read().end());
    }
    is_constant = read.empty();
  }
  bool holds(const ag::Node& node, EagerStage stage) const override {
    const auto present = computing_hooks(node, stage);
    return std::equal(hooks.begin(), hooks.end(), present.begin(), present.end(),
                      [](const auto& a, const Placed& b) { return a.first == *b.hook && a.second == b.place; });
  }
  std::vector<at::Tensor> record(std::vector<at::Tensor>&& inputs) const override {
    const auto num_given = std::count(is_given.begin(), is_given.end(), true);
    auto next = inputs.begin() + num_given;
    for (const auto& [hook, place] : hooks) {
      const std::vector<at::Tensor> given(next, next + static_cast<std::ptrdiff_t>(hook.read().size()));
      next += static_cast<std::ptrdiff_t>(given.size());
      if (!is_given[place]) continue;
      const auto end = is_given.begin() + static_cast<std::ptrdiff_t>(place);
      at::Tensor& gradient = inputs[static_cast<size_t>(std::count(is_given.begin(), end, true))];
      gradient = hook.compute(gradient, given);
    }
    return {inputs.begin(), inputs.begin() + num_given};
  }

  std::vector<std::pair<ComputingHook, size_t>> hooks;  ///< each with the place of its gradient
  std::vector<bool> is_given;                           ///< by gradient of the stage
};

}  // namespace

void set_hook_reader(HookReader made) { reader = made; }

std::shared_ptr<const HookGraph> graph_of_hooks(const ag::Node& node, EagerStage stage,
                                                const ag::variable_list& gradients) {
  // What retains a gradient writes to the tensor. How many do so is a part of the key.
  if (stage == EagerStage::kTensorHooks && !const_cast<ag::Node&>(node).retains_grad_hooks().empty()) return nullptr;
  if (const auto hooks = computing_hooks(node, stage); !hooks.empty())
    return std::make_shared<const ComputingHooks>(hooks, gradients);
  return reader == nullptr ? nullptr : reader(node, stage, gradients);
}

bool hooks_hold(const std::vector<HookUse>& uses, const std::vector<RunCall>& calls) {
  return std::all_of(uses.begin(), uses.end(), [&](const HookUse& use) {
    const auto& read = use.graph->read;
    return use.graph->holds(*calls[use.call].node, use.stage) &&
           std::none_of(read.begin(), read.end(), [&](const at::Tensor& one) { return is_accumulated_in(one, calls); });
  });
}

}  // namespace diptych::detail
