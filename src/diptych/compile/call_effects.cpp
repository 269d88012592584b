#include "diptych/compile/call_effects.h"

#include <ATen/core/grad_mode.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/functorch/TensorWrapper.h>

#include <algorithm>

#include "diptych/autodiff/joint_capture.h"
#include "diptych/base/check.h"
#include "diptych/hops/argument_writes.h"
#include "diptych/trace/memory_overlap.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;
using Kind = OutputPlan::Kind;

// Returns the plain tensor in all wrappers.
at::Tensor innermost(const at::Tensor& tensor) {
  if (const auto* batched = at::functorch::maybeGetBatchedImpl(tensor)) return innermost(batched->value());
  const auto* wrapper = at::functorch::maybeGetTensorWrapper(tensor);
  return wrapper == nullptr ? tensor : innermost(wrapper->value());
}

bool is_done_outside(const OutputPlan& output) {
  const bool has_operator = output.kind == Kind::kSlot || output.kind == Kind::kPrimal || output.kind == Kind::kSame ||
                            output.kind == Kind::kRegenerated;
  return has_operator && !output.is_own_leaf && !output.retains_grad;
}

void check_is_done_outside(const PlanStructure& plan) {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    DIPTYCH_CHECK(is_done_outside(plan.outputs[i]),
                  "[aot] the result '{}' {}, by detach(), data, requires_grad_() or after a change of a shape, which "
                  "can't be made outside of the graph inside of a transform",
                  plan.output_paths[i],
                  plan.outputs[i].alias_text.empty() ? "is a leaf of its own" : plan.outputs[i].alias_text);
  }
  const bool changes_shape = std::any_of(plan.mutations.begin(), plan.mutations.end(),
                                         [](const MutationPlan& mutation) { return mutation.geometry.has_value(); });
  DIPTYCH_CHECK(!changes_shape,
                "[aot] the function changes the shape of an argument in place, which a graph can't do inside of a "
                "transform");
  DIPTYCH_CHECK(plan.derived.empty() && plan.parts.empty(),
                "[aot] the function changes a tensor whose memory other arguments share, or that has gaps, which a "
                "graph can't do inside of a transform");
  DIPTYCH_CHECK(plan.function_views.empty() && plan.fresh_leaves.empty(),
                "[aot] the function returns a view that an autograd Function makes, or a leaf of its own, which a "
                "graph can't do inside of a transform");
}

bool has_element_in(const std::vector<size_t>& list, size_t element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

}  // namespace

CallEffects::CallEffects(const JointCapture& capture, size_t num_arguments)
    : plan_(capture.plan().structure()), num_arguments_(num_arguments), captured_(capture.free_variables()) {
  check_is_done_outside(plan_);
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& output = plan_.outputs[i];
    if (output.kind == Kind::kSlot) slots_.push_back(i);
    if (output.kind == Kind::kPrimal) touched_.push_back(output.index);
  }
  for (const auto& base : plan_.epilogue_inputs) {
    auto& list = base.is_primal ? touched_ : slots_;
    if (!has_element_in(list, base.index)) list.push_back(base.index);
  }
  for (const MutationPlan& mutation : plan_.mutations) touched_.push_back(mutation.primal);
  if (!plan_.epilogue_inputs.empty()) epilogue_ = std::make_unique<const Program>(capture.plan().epilogue);
}

FlatFunction CallEffects::pure(const FlatFunction& function) const {
  return [this, &function](const Tensors& stand_ins) {
    const FlatResult given = function(stand_ins);
    FlatResult result;
    const auto add = [&](const at::Tensor& tensor, std::string path) {
      result.tensors.push_back(tensor);
      result.paths.push_back(std::move(path));
    };
    DIPTYCH_ASSERT(given.tensors.size() == plan_.outputs.size(), "a function returned {} tensors, then {}",
                   plan_.outputs.size(), given.tensors.size());
    for (const size_t slot : slots_) {
      const at::Tensor& tensor = given.tensors[slot];
      const bool is_base = plan_.outputs[slot].kind != Kind::kSlot;  // of a view, which is made outside
      add(is_base ? at::Tensor(tensor._base()) : tensor, given.paths[slot]);
    }
    for (const MutationPlan& mutation : plan_.mutations) {
      const bool is_argument = mutation.primal < num_arguments_;
      add(is_argument ? stand_ins[mutation.primal]
                      : Recorder::current()->stand_in(captured_[mutation.primal - num_arguments_]),
          fmt::format("new.{}", result.tensors.size()));
    }
    return result;
  };
}

void CallEffects::set_free_variables(const Tensors& captured) {
  places_.clear();
  for (const at::Tensor& tensor : captured_) {
    const auto found =
        std::find_if(captured.begin(), captured.end(), [&](const at::Tensor& one) { return one.is_same(tensor); });
    places_.push_back(num_arguments_ + static_cast<size_t>(found - captured.begin()));
  }
  const auto is_missing = [&](size_t index) { return primal(index) >= num_arguments_ + captured.size(); };
  DIPTYCH_CHECK(std::none_of(touched_.begin(), touched_.end(), is_missing),
                "[aot] the function captures other tensors when it runs again, which a graph can't do");
  captured_.clear();
}

size_t CallEffects::primal(size_t index) const {
  return index < num_arguments_ ? index : places_[index - num_arguments_];
}

Tensors CallEffects::written(const Tensors& primals) const {
  Tensors found;
  for (const MutationPlan& mutation : plan_.mutations) found.push_back(innermost(primals[primal(mutation.primal)]));
  return found;
}

// A capture sees a wrapped tensor with gaps as if it had none, and then another reshape() is a view. Wrapped tensors of
// one memory are inputs of their own to it.
void CallEffects::check(const Tensors& primals) const {
  for (const size_t index : touched_) {
    const at::Tensor& tensor = primals[primal(index)];
    DIPTYCH_CHECK(is_dense(tensor.sizes().vec(), tensor.strides().vec()),
                  "[aot] the function changes or returns a tensor that has gaps, which a graph can't do inside of a "
                  "transform");
  }
  for (const MutationPlan& mutation : plan_.mutations) {
    const at::Tensor& tensor = primals[primal(mutation.primal)];
    const at::Tensor memory = innermost(tensor);
    const bool is_shared = std::any_of(primals.begin(), primals.end(), [&](const at::Tensor& other) {
      return !other.is_same(tensor) && may_share_memory(innermost(other), memory);
    });
    DIPTYCH_CHECK(!is_shared && !has_overlap(memory.sizes(), memory.strides()),
                  "[aot] the function changes a tensor whose memory another tensor or element shares, which a graph "
                  "can't do inside of a transform");
  }
}

Tensors CallEffects::operands(Tensors primals) const {
  const Tensors given = primals;
  for (const size_t index : touched_) {
    const at::Tensor& touched = given[primal(index)];
    if (!primals[primal(index)].is_same(touched)) continue;  // done
    const at::Tensor copy = touched.clone();
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].is_same(touched)) primals[i] = copy;
    }
  }
  return primals;
}

// Whoever gets an exception runs the function itself, on what the arguments were.
void CallEffects::write(const Tensors& primals, const Tensors& operands, const Tensors& found) const {
  size_t done = 0;
  try {
    for (; done < plan_.mutations.size(); ++done) {
      const MutationPlan& mutation = plan_.mutations[done];
      write_back(primals[primal(mutation.primal)], found[slots_.size() + done], mutation.under_no_grad);
    }
  } catch (...) {
    const at::AutoGradMode mode(false);
    while (done-- > 0) {
      const size_t index = primal(plan_.mutations[done].primal);
      at::Tensor(primals[index]).copy_(operands[index]);
    }
    throw;
  }
}

Tensors CallEffects::apply(const Tensors& primals, const Tensors& operands, Tensors found) const {
  write(primals, operands, found);
  Tensors views, results;
  const auto in_slot = [&](size_t slot) {
    return found[static_cast<size_t>(std::find(slots_.begin(), slots_.end(), slot) - slots_.begin())];
  };
  if (epilogue_) {
    Tensors bases;
    for (const auto& base : plan_.epilogue_inputs) {
      bases.push_back(base.is_primal ? primals[primal(base.index)] : in_slot(base.index));
    }
    views = epilogue_->run(std::move(bases), {.differentiable = true});
  }
  for (size_t i = 0; i < plan_.outputs.size(); ++i) {
    const OutputPlan& output = plan_.outputs[i];
    results.push_back(output.kind == Kind::kSlot     ? in_slot(i)
                      : output.kind == Kind::kPrimal ? primals[primal(output.index)]
                      : output.kind == Kind::kSame   ? results[output.index]
                                                     : views[output.index]);
  }
  return results;
}

}  // namespace diptych::detail
