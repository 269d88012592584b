#include "diptych/backward/hook_graph.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>

#include "diptych/backward/run_key.h"

namespace diptych::detail {
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

}  // namespace

void set_hook_reader(HookReader made) { reader = made; }

HookReader hook_reader() { return reader; }

bool hooks_hold(const std::vector<HookUse>& uses, const std::vector<RunCall>& calls) {
  return std::all_of(uses.begin(), uses.end(), [&](const HookUse& use) {
    const auto& read = use.graph->read;
    return use.graph->holds(*calls[use.call].node, use.stage) &&
           std::none_of(read.begin(), read.end(), [&](const at::Tensor& one) { return is_accumulated_in(one, calls); });
  });
}

}  // namespace diptych::detail
