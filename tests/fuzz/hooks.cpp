#include "fuzz/hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace diptych::fuzz {
namespace {

namespace ag = torch::autograd;

using Log = std::shared_ptr<Tensors>;

// No gradient is left out, as are zeros: a backward of one result calls a hook on another of the same call with none,
// since the two have one node (docs/limits.md), and a loop or a derivative that is zero everywhere may give zeros.
void note(const Log& log, const at::Tensor& gradient) {
  if (gradient.defined() && at::count_nonzero(gradient).item<int64_t>() > 0)
    log->push_back(gradient.detach().resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous));
}

struct TripleBefore final : ag::FunctionPreHook {
  ag::variable_list operator()(const ag::variable_list& gradients) override {
    ag::variable_list changed;
    for (const at::Tensor& gradient : gradients) changed.push_back(gradient.defined() ? gradient * 3 : gradient);
    return changed;
  }
};

struct NoteAfter final : ag::FunctionPostHook {
  explicit NoteAfter(Log log) : log(std::move(log)) {}
  ag::variable_list operator()(const ag::variable_list& outputs, const ag::variable_list& inputs) override {
    for (const at::Tensor& gradient : inputs) note(log, gradient);
    return outputs;
  }
  Log log;
};

using Change = std::function<at::Tensor(const at::Tensor&)>;

unsigned add_to_tensor(const at::Tensor& tensor, const Log& log, const Change& change) {
  return tensor.register_hook([log, change](const at::Tensor& gradient) {
    note(log, gradient);
    return gradient.defined() ? change(gradient) : gradient;
  });
}

}  // namespace

at::Tensor Hooks::target(const Hook& hook) const {
  const Tensors& tensors = hook.target == Hook::Target::kOutput     ? run_.seen.outputs
                           : hook.target == Hook::Target::kArgument ? run_.seen.inputs
                                                                    : leaves_;
  return static_cast<size_t>(hook.index) < tensors.size() ? tensors[hook.index] : at::Tensor();
}

void Hooks::add(const Hook& hook, const at::Tensor& tensor, const Log& log) {
  const auto triple = [](const at::Tensor& gradient) { return gradient * 3; };
  const auto accumulate = [&] { return ag::impl::gradient_edge(tensor).function; };
  switch (hook.kind) {
    case Hook::Kind::kWatch:
      add_to_tensor(tensor, log, [](const at::Tensor&) { return at::Tensor(); });
      return;
    case Hook::Kind::kTriple:
      add_to_tensor(tensor, log, triple);
      return;
    case Hook::Kind::kShift:
      add_to_tensor(tensor, log, [](const at::Tensor& gradient) { return gradient + 1; });
      return;
    case Hook::Kind::kRemoved:
      tensor.remove_hook(add_to_tensor(tensor, log, triple));
      return;
    case Hook::Kind::kRetainGrad:
      tensor.retain_grad();
      return;
    case Hook::Kind::kBeforeAccumulation:
      accumulate()->add_pre_hook(std::make_unique<TripleBefore>());
      return;
    case Hook::Kind::kAfterAccumulation:
      accumulate()->add_post_hook(std::make_unique<NoteAfter>(log));
  }
}

void Hooks::add(Hook::When when) {
  for (size_t i = 0; i < program_.hooks.size(); ++i) {
    const Hook& hook = program_.hooks[i];
    const at::Tensor tensor = hook.when == when ? target(hook) : at::Tensor();
    if (!tensor.defined() || !tensor.requires_grad()) continue;
    if (hook.target == Hook::Target::kLeaf && !testing::is_leaf(tensor)) continue;  // the function has changed it
    // Of ours, only what is one in eager, too: a loop gives a history to a result that eager gives none.
    if (eager_ != nullptr && !eager_->is_hooked[i]) continue;
    run_.is_hooked[i] = true;
    seen_[i] = std::make_shared<Tensors>();
    add(hook, tensor, seen_[i]);
  }
}

// Which results autograd::grad comes past is not compared: one that leads to no leaf has its node with those that do.
void Hooks::look() {
  Tensors& gradients = run_.seen.grads;
  const auto mode = program_.backward.mode;
  const bool asks_for_leaves = mode == Backward::Mode::kGrad || mode == Backward::Mode::kSecondOrder;
  for (size_t i = 0; i < seen_.size(); ++i) {
    const Log& log = seen_[i];
    if (log == nullptr || (asks_for_leaves && program_.hooks[i].target == Hook::Target::kOutput)) continue;
    gradients.push_back(at::scalar_tensor(static_cast<int64_t>(log->size()), at::kLong));
    gradients.insert(gradients.end(), log->begin(), log->end());
  }
  for (const Tensors* tensors : {&run_.seen.outputs, &run_.seen.inputs}) {
    for (const at::Tensor& tensor : *tensors) {
      if (tensor.defined() && tensor.retains_grad()) gradients.push_back(tensor.grad());
    }
  }
}

}  // namespace diptych::fuzz
