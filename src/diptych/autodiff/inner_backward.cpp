#include "diptych/autodiff/inner_backward.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "diptych/base/check.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/transforms.h"

namespace diptych::detail {
namespace {

namespace ag = torch::autograd;

// The place where a primal's gradients accumulate, behind the node that makes it no leaf.
const ag::AccumulateGrad* accumulator_of(const Primal& primal) {
  const ag::Node* node = primal.edge.function.get();
  if (node == nullptr) return nullptr;
  const auto* here = dynamic_cast<const ag::AccumulateGrad*>(node);
  return here != nullptr || node->num_outputs() == 0
             ? here
             : dynamic_cast<const ag::AccumulateGrad*>(node->next_edge(0).function.get());
}

// The gradient that arrived at a primal while the function ran; undefined if none did.
at::Tensor accumulated_at(const Primal& primal) {
  const auto* accumulator = primal.same_as ? nullptr : accumulator_of(primal);
  return accumulator == nullptr ? at::Tensor() : accumulator->variable.grad();
}

void check_eager_is_same(const Recorder& recorder, const Primal& primal, const at::Tensor& gradient) {
  const auto give_up = [&](const char* why) {
    throw TransformMet(fmt::format("the function calls backward(), and {} '{}'", why, primal.slot.path));
  };
  if (gradient.requires_grad()) give_up("keeps the graph of the gradient of");
  const bool is_plain = !primal.part_of && !primal.base_of && !primal.wrapped.defined() && primal.real.is_leaf();
  if (!is_plain) give_up("the gradient goes on from");
  if (has_gradient_hooks(primal.real)) give_up("a hook is on");
  const at::Tensor& before = primal.real.grad();
  const auto shares = [&](const Primal& other) { return may_share_memory(other.real, before); };
  if (before.defined() && std::any_of(recorder.primals().begin(), recorder.primals().end(), shares)) {
    give_up("reads or writes the memory of the .grad of");
  }
}

}  // namespace

std::vector<size_t> take_accumulated(const Recorder& recorder, FlatResult& result) {
  std::vector<size_t> found;
  for (size_t i = 0; i < recorder.primals().size(); ++i) {
    const Primal& primal = recorder.primals()[i];
    at::Tensor gradient = accumulated_at(primal);
    if (!gradient.defined()) continue;
    check_eager_is_same(recorder, primal, gradient);
    found.push_back(i);
    result.tensors.push_back(std::move(gradient));
    result.paths.push_back("gradient of " + primal.slot.path);
  }
  return found;
}

bool has_accumulated(const Recorder& recorder) {
  const auto& primals = recorder.primals();
  return std::any_of(primals.begin(), primals.end(),
                     [](const Primal& primal) { return accumulated_at(primal).defined(); });
}

void check_nothing_accumulated(const Recorder& recorder) {
  for (const Primal& primal : recorder.primals()) {
    DIPTYCH_CHECK(!accumulated_at(primal).defined(),
                  "[capture] the function calls backward(), which would accumulate into the .grad of '{}', and a graph "
                  "can't do that; use torch.autograd.grad() inside the function, or Diptych's value_and_grad()",
                  primal.slot.path);
  }
}

void check_own_leaves(const Recorder& recorder, const FlatResult& result, bool may_give_up) {
  const auto& primals = recorder.primals();
  for (size_t i = 0; i < result.tensors.size(); ++i) {
    const at::Tensor& leaf = result.tensors[i];
    if (!leaf.is_leaf()) continue;
    const bool has_gradient = leaf.grad().defined();
    if (!has_gradient && !(leaf.requires_grad() && has_gradient_hooks(leaf))) continue;
    if (std::any_of(primals.begin(), primals.end(), [&](auto& one) { return one.stand_in.is_same(leaf); })) continue;
    const char* const with = has_gradient ? "a gradient" : "a hook";
    if (may_give_up) {
      throw TransformMet(
          fmt::format("the function returns a tensor that it makes, '{}', with {}", result.paths[i], with));
    }
    DIPTYCH_CHECK(
        false,
        "[capture] the function returns a tensor that it makes, '{}', with {}, which a graph can't give a new "
        "tensor; return the gradient itself, or make the tensor outside the function",
        result.paths[i], with);
  }
}

bool has_gradient_hooks(const at::Tensor& leaf) {
  if (!ag::impl::hooks(leaf).empty() || ag::impl::post_acc_grad_hooks(leaf) != nullptr) return true;
  const auto node = ag::impl::try_get_grad_accumulator(leaf);
  return node != nullptr && (!node->pre_hooks().empty() || !node->post_hooks().empty());
}

void accumulate(const at::Tensor& leaf, at::Tensor gradient) {
  const c10::AutoGradMode without_history(false);
  ag::variable_list given;
  given.push_back(std::move(gradient));
  (*ag::impl::grad_accumulator(leaf))(std::move(given));
}

}  // namespace diptych::detail
