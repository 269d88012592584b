#include "fuzz/observe.h"

#include "fuzz/hooks.h"

namespace diptych::fuzz {

using namespace detail;
namespace {

using testing::Function;
using testing::Observed;

at::Tensor make_tangent(const at::Tensor& output, Tangent kind, uint64_t number) {
  Leaf leaf{.dtype = output.scalar_type(), .sizes = output.sizes().vec()};
  if (kind == Tangent::kTransposed) leaf.layout = Leaf::Layout::kTransposed;
  if (kind == Tangent::kSliced) leaf.layout = Leaf::Layout::kSliced;
  if (kind == Tangent::kExpanded) return make_leaf({.dtype = leaf.dtype}, number).expand(output.sizes());
  return make_leaf(leaf, number);
}

struct Roots {
  Tensors tensors;
  Tensors tangents;
};

// Of ours, only what is a root in eager, too: a loop gives a history to a result that eager gives none.
Roots choose_roots(const Program& program, Run& run, const Run* eager) {
  Roots roots;
  const auto add = [&](const at::Tensor& tensor, Tangent kind, uint64_t number) {
    const size_t place = run.is_root.size();
    const bool is_other = eager != nullptr && place < eager->is_root.size() && !eager->is_root[place];
    run.is_root.push_back(tensor.requires_grad() && kind != Tangent::kNone && !is_other);
    if (!run.is_root.back()) return;
    roots.tensors.push_back(tensor);
    roots.tangents.push_back(make_tangent(tensor, kind, number));
  };
  const Observed& seen = run.seen;
  for (size_t i = 0; i < seen.outputs.size() && i < program.backward.tangents.size(); ++i) {
    add(seen.outputs[i], program.backward.tangents[i], 100 + i);
  }
  for (size_t i = 0; program.backward.from_inputs && i < seen.inputs.size(); ++i) {
    add(seen.inputs[i], testing::is_leaf(seen.inputs[i]) ? Tangent::kNone : Tangent::kDense, 200 + i);
  }
  return roots;
}

at::Tensor sum_of_squares(const Tensors& gradients) {
  at::Tensor total;
  for (const at::Tensor& gradient : gradients) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    at::Tensor term = at::real(gradient).to(at::kDouble).square().sum();
    if (gradient.is_complex()) term = term + at::imag(gradient).to(at::kDouble).square().sum();
    total = total.defined() ? total + term : term;
  }
  return total;
}

void run_backward(const Program& program, Run& run, const Tensors& wanted, const Run* eager) {
  const Roots roots = choose_roots(program, run, eager);
  if (roots.tensors.empty()) return;
  using Mode = Backward::Mode;
  const auto keep = [&](const Tensors& gradients) {
    for (const at::Tensor& gradient : gradients)
      run.seen.grads.push_back(gradient.defined() ? gradient.detach().contiguous() : gradient);
  };
  const auto grad = [&](const Tensors& outputs, const Tensors& tangents, bool create_graph) {
    return torch::autograd::grad(outputs, wanted, tangents, create_graph, create_graph, /*allow_unused=*/true);
  };
  switch (program.backward.mode) {
    case Mode::kNone:
      return;
    case Mode::kOnce:
      return torch::autograd::backward(roots.tensors, roots.tangents);
    case Mode::kTwice:
      torch::autograd::backward(roots.tensors, roots.tangents, /*retain_graph=*/true);
      return torch::autograd::backward(roots.tensors, roots.tangents);
    case Mode::kInTurn:
      for (size_t i = 0; i < roots.tensors.size(); ++i)
        torch::autograd::backward({roots.tensors[i]}, {roots.tangents[i]}, true);
      return;
    case Mode::kInTurnOnce:
      for (size_t i = 0; i < roots.tensors.size(); ++i)
        torch::autograd::backward({roots.tensors[i]}, {roots.tangents[i]});
      return;
    case Mode::kGrad:
      if (!wanted.empty()) keep(grad(roots.tensors, roots.tangents, false));
      return;
    case Mode::kSecondOrder: {
      if (wanted.empty()) return;
      const Tensors first = grad(roots.tensors, roots.tangents, true);
      keep(first);
      run.stage = "second order";
      // A derivative that is zero everywhere may be none or zeros, in eager as well as here.
      const at::Tensor total = sum_of_squares(first);
      Tensors second(wanted.size());
      if (total.defined()) second = grad({total}, {}, false);
      for (size_t i = 0; i < second.size(); ++i) {
        if (!second[i].defined()) second[i] = at::zeros_like(wanted[i]);
      }
      keep(second);
    }
  }
}

void edit(const Program& program, const Observed& seen) {
  if (program.edit.target == Edit::Target::kNone) return;
  const at::AutoGradMode mode(!program.edit.no_grad);
  const Tensors& tensors = program.edit.target == Edit::Target::kOutput ? seen.outputs : seen.inputs;
  if (static_cast<size_t>(program.edit.index) >= tensors.size()) return;
  testing::is_leaf(tensors[program.edit.index]);  // or eager may refuse to change a view that nobody has looked at
  tensors[program.edit.index].mul_(2);
}

bool is_set_in(const DefaultDtype& other, int number) {
  return other.dtype != at::kFloat && (other.scope != DefaultDtype::Scope::kOddCalls || number % 2 == 1);
}

}  // namespace

Run observe(const Program& program, const Function& function, const Tensors& captured, int number, const Run* eager) {
  Run run;
  const Call call = make_call(program, captured, number);
  run.seen.inputs = call.arguments;
  Tensors wanted;
  Tensors leaves = call.leaves;
  leaves.insert(leaves.end(), captured.begin(), captured.end());
  for (const at::Tensor& tensor : captured) {
    if (!tensor.is_leaf()) tensor.detach_();  // the last call has given it a history, and backward has freed that
  }
  for (at::Tensor& leaf : leaves) {
    leaf.mutable_grad() = at::Tensor();
    if (leaf.requires_grad()) wanted.push_back(leaf);
  }
  Hooks hooks(program, leaves, run, eager);
  try {
    torch::manual_seed(program.seed + number);
    hooks.add(Hook::When::kBeforeCall);
    std::optional<DefaultDtypeGuard> default_dtype;
    if (is_set_in(program.default_dtype, number)) default_dtype.emplace(program.default_dtype.dtype);
    {
      const at::AutoGradMode mode(!program.called_without_grad);
      run.seen.outputs = function(call.arguments);
    }
    if (program.default_dtype.scope != DefaultDtype::Scope::kCallAndBackward) default_dtype.reset();
    hooks.add(Hook::When::kAfterCall);
    run.stage = "edit";
    edit(program, run.seen);
    hooks.add(Hook::When::kAfterEdit);
    run.stage = "backward";
    std::optional<BackwardCapture> capture;
    if (eager != nullptr && program.captures_backward) capture.emplace();
    run_backward(program, run, wanted, eager);
  } catch (const InvalidProgram&) {
    throw;
  } catch (const UserError& error) {
    run.user_error = true;
    run.seen.error = error.what();
  } catch (const c10::Error& error) {
    run.seen.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    run.seen.error = error.what();
  }
  for (const at::Tensor& leaf : leaves) run.seen.grads.push_back(leaf.is_leaf() ? leaf.grad() : at::Tensor());
  hooks.look();
  // What the function captures may be changed by it like any argument.
  run.seen.inputs.insert(run.seen.inputs.end(), captured.begin(), captured.end());
  return run;
}

}  // namespace diptych::fuzz
