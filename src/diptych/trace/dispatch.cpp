#include "diptych/trace/dispatch.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/copy.h>
#include <c10/core/AutogradState.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include "diptych/base/check.h"
#include "diptych/ops/checked_values.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/remedies.h"
#include "diptych/trace/eager_layout.h"
#include "diptych/trace/eager_refusal.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/front_call.h"
#include "diptych/trace/host_numbers.h"
#include "diptych/trace/location.h"
#include "diptych/trace/memory_order.h"
#include "diptych/trace/meta_kernel.h"
#include "diptych/trace/narrow_by_tensor.h"
#include "diptych/trace/other_fills.h"
#include "diptych/trace/overlapping_writes.h"
#include "diptych/trace/own_history.h"
#include "diptych/trace/recorder.h"
#include "diptych/trace/recording_kernels.h"
#include "diptych/trace/shadow.h"
#include "diptych/trace/sparse_gradients.h"
#include "diptych/trace/stack_tensors.h"
#include "diptych/trace/traced_writes.h"
#include "diptych/trace/transforms.h"
#include "diptych/trace/vmap_draws.h"

namespace diptych::detail {
namespace {

using torch::jit::Stack;

// Whether a tensor is a meta tensor of no trace: functionalization checks an in-place operator on these before it runs
// it.
bool is_plain_meta(const at::Tensor& tensor) { return tensor.defined() && tensor.is_meta() && !is_stand_in(tensor); }

// The values of a backward are not known when it is traced, and a tensor that is given for the result would have to be
// resized.
bool may_ask(const Recorder& recorder, const OperatorPlan& plan) {
  return recorder.phase() == Phase::kForward && recorder.asked_values().may_ask() && plan.num_out == 0;
}

void refuse_unsupported(const Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                        const Stack& stack) {
  DIPTYCH_CHECK(!plan.changes_storage,
                "[trace] {} changes a tensor's storage, which a graph can't hold; copy_ into the tensor, or call it "
                "outside the traced function",
                with_place(op.operator_name()));
  DIPTYCH_CHECK(!plan.has_hidden_aliases,
                "[trace] {} changes an argument or returns a view of one, but has no functionalization kernel; use an "
                "operator that returns new tensors, or call it outside the traced function",
                with_place(op.operator_name()));
  DIPTYCH_CHECK(!plan.takes_process_group,
                "[trace] {} communicates with other processes by their group, which a graph can't hold; use "
                "torch.distributed._functional_collectives, or call it outside the traced function",
                with_place(op.operator_name()));
  DIPTYCH_CHECK(!reads_values(plan, stack) || may_ask(recorder, plan),
                "[trace] {} needs the values of a tensor, which are not known while tracing; {}",
                with_place(op.operator_name()), remedy_for_values(op.operator_name().name));
}

// The graph draws into a tensor without gaps, which may be contiguous where the tensor of this call is not. On a CPU
// the kernel then draws other numbers.
void refuse_draw_with_gaps(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  constexpr int64_t kAtOnce = 16;
  if (plan.trait != TraceTrait::kDrawsInBlocks) return;
  const at::Tensor& self = stack[stack.size() - op.schema().arguments().size()].toTensor();
  const auto order = MemoryOrder(self.strides()).order;  // the tensor of the graph keeps it
  const bool becomes_contiguous = !self.is_contiguous() && std::is_sorted(order.begin(), order.end());
  DIPTYCH_CHECK(!becomes_contiguous || self.numel() < kAtOnce || !self.device().is_cpu(),
                "[trace] {} draws into a tensor with gaps, where eager's kernel draws other numbers than for a dense "
                "one; copy_ the result of randn into it",
                with_place(op.operator_name()));
}

// Whether autograd records what the kernel of this operator calls, if it calls operators, and nothing if it does not.
bool has_unknown_history(const c10::OperatorHandle& op, const OperatorPlan& plan) {
  return !plan.is_native && c10::GradMode::is_enabled() && !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU);
}

bool has_history(const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); }

void refuse_written_without_history(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  if (!plan.mutates || !has_unknown_history(op, plan)) return;
  DIPTYCH_CHECK(!any_tensor(stack, plan, has_history),
                "[trace] {} writes to an argument and gets a tensor that requires grad, but has no kernel for "
                "autograd, so what it is to the gradient depends on what its kernel calls; register one, or call it "
                "under no_grad",
                with_place(op.operator_name()));
}

void refuse_result_without_history(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  if (plan.mutates || !has_unknown_history(op, plan)) return;
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    DIPTYCH_CHECK(
        !stack[i].isTensor() || !has_history(stack[i].toTensor()),
        "[trace] {} gets a tensor that requires grad, but has no kernel for autograd, so its gradient depends "
        "on what its kernel calls; register one, or call it under no_grad",
        with_place(op.operator_name()));
  }
}

// Exchanges the real tensors among the arguments for their stand-ins; in a shadow, for the stand-ins of their copies.
void exchange_real_tensors(Recorder& recorder, const OperatorPlan& plan, Stack& stack) {
  const auto is_foreign = [&](const at::Tensor& tensor) {
    return tensor.defined() && !tensor.unsafeGetTensorImpl()->is_wrapped_number() && !recorder.owns(tensor);
  };
  const Shadow* shadow = Shadow::current();
  exchange_tensors(plan, stack, is_foreign, [&](const at::Tensor& tensor) {
    return recorder.stand_in(shadow == nullptr ? tensor : shadow->copy_of(tensor));
  });
}

// Whether this call of an operator with an undeclared mutation mutates.
bool mutates_hidden(const OperatorPlan& plan, const Stack& stack) {
  if (!plan.hidden_mutation) return false;
  const auto* arguments = &stack[stack.size() - plan.takes_tensor.size()];
  const auto& mutated = arguments[plan.hidden_mutation->mutated_argument];
  return mutated.isTensor() && mutated.toTensor().defined() &&
         arguments[plan.hidden_mutation->condition_argument].toBool();
}

// Functionalization checks an in-place operator by calling it on plain meta tensors first. If LibTorch has no Meta
// kernel for it, there is nothing to check, and only the result is needed, which is the first argument.
void check_on_meta(const c10::OperatorHandle& op, const OperatorPlan& plan, Stack* stack) {
  const OnMeta on_meta;
  const size_t begin = stack->size() - plan.takes_tensor.size();
  const c10::IValue first = plan.mutates ? (*stack)[begin] : c10::IValue();
  try {
    op.callBoxed(stack);
  } catch (const c10::NotImplementedError&) {
    if (!plan.mutates) throw;
    stack->resize(begin);
    stack->push_back(first);
  }
}

// Whether autograd's kernel for an operator has nothing to do. In a backward that autograd does not record, operators
// of LibTorch only pass through these kernels, at half the cost of a view, and nothing asks whether a tensor is a view.
// In-place operators check versions there.
bool is_nothing_to_autograd(const Recorder& recorder, const OperatorPlan& plan) {
  return recorder.phase() == Phase::kBackward && !c10::GradMode::is_enabled() && plan.is_native && !plan.mutates;
}

// Calls the composite kernel, which autograd's keys lead to. In inference mode there are none, and the operator itself
// would be recorded, which backends and passes know nothing of.
void run_composite(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  constexpr auto kComposite = c10::DispatchKey::CompositeImplicitAutograd;
  const bool has_own_kernel = op.hasKernelForDispatchKey(c10::DispatchKey::CPU);
  if (!(keys & kAutogradKeys).empty() || has_own_kernel) return op.redispatchBoxed(keys, stack);
  op.callBoxedForDispatchKey(kComposite, *stack);
}

// Some composites take a stand-in for a tensor subclass, return new tensors, and do not write to `out`.
void call_composite(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys, Stack* stack) {
  if (plan.num_out == 0) return run_composite(op, keys, stack);
  const Stack out(stack->end() - static_cast<int64_t>(plan.num_out), stack->end());
  run_composite(op, keys, stack);
  for (size_t i = 0; i < out.size(); ++i) {
    c10::IValue& result = (*stack)[stack->size() - out.size() + i];
    if (result.toTensor().is_same(out[i].toTensor())) continue;
    out[i].toTensor().copy_(result.toTensor());
    result = out[i];
  }
}

void dress_results(const c10::OperatorHandle& op, const Stack& stack) {
  for (size_t i = stack.size() - op.schema().returns().size(); i < stack.size(); ++i) {
    const c10::IValue& result = stack[i];
    if (result.isTensor()) look_dense(result.toTensor());
    if (!result.isTensorList()) continue;
    for (const at::Tensor& tensor : result.toTensorList()) look_dense(tensor);
  }
}

// Lets views in inference mode be what they are in eager. There a view of a normal tensor is not an inference tensor,
// because ATen makes it by a constructor that ignores the mode; the constructor of a stand-in does not ignore it.
class NormalViews {
 public:
  NormalViews(const OperatorPlan& plan, const Stack& stack)
      : was_on_(c10::InferenceMode::is_enabled() && plan.is_view && is_of_normal_tensor(plan, stack)) {
    if (was_on_) c10::AutogradState::get_tls_state().set_inference_mode(false);
  }
  ~NormalViews() {
    if (was_on_) c10::AutogradState::get_tls_state().set_inference_mode(true);
  }
  NormalViews(const NormalViews&) = delete;
  NormalViews& operator=(const NormalViews&) = delete;

 private:
  static bool is_of_normal_tensor(const OperatorPlan& plan, const Stack& stack) {
    const c10::IValue& self = stack[stack.size() - plan.takes_tensor.size()];
    return self.isTensor() && self.toTensor().defined() && !self.toTensor().is_inference();
  }
  bool was_on_;
};

void call_in_front(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan,
                   c10::DispatchKeySet keys, Stack* stack) {
  FrontCall call(recorder, op, plan, *stack);
  if (is_nothing_to_autograd(recorder, plan)) {
    const c10::impl::ExcludeDispatchKeyGuard guard(kAutogradKeys | c10::DispatchKeySet(kFrontKey));
    op.redispatchBoxed(keys - kAutogradKeys, stack);
  } else {
    const c10::impl::ExcludeDispatchKeyGuard guard(kFrontKey);
    const NormalViews normal_views(plan, *stack);
    op.redispatchBoxed(keys, stack);
    call.finish(*stack);
    refuse_result_without_history(op, plan, *stack);
    if (!plan.mutates && !plan.is_view) settle_histories(recorder, op, *stack);
  }
  dress_results(op, *stack);
}

// Whether the call is never recorded as it is: other operators than eager's kernel calls are, or another than the one
// with out=. Autocast, which has yet to change dtypes, lies below.
bool is_taken_apart(const OperatorPlan& plan) {
  return (plan.is_composite || plan.num_out > 0) && !at::autocast::is_autocast_enabled(c10::DeviceType::CPU);
}

void front_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  c10::DispatchKeySet below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFrontKey);
  const OperatorPlan& plan = plan_for(op);
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr && Shadow::current() != nullptr) {
    return Shadow::current()->call_in_front(op, plan, below, stack);
  }
  if (recorder == nullptr || any_tensor(*stack, plan, is_plain_meta)) return op.redispatchBoxed(below, stack);
  refuse_unsupported(*recorder, op, plan, *stack);
  if (plan.trait == TraceTrait::kLiftsLiteral) {
    const at::Tensor lifted = recorder->lift(stack->back().toTensor());
    if (lifted.defined()) {
      stack->back() = lifted;
      return;
    }
  }
  if (call_with_open_numbers(op, stack)) return;
  exchange_real_tensors(*recorder, plan, *stack);
  below = below - kWrapperKeys;  // which stand-ins do not have
  if (fill_by_mask(op, stack) || zero_by_fill(op, stack) || narrow_by_tensor(*recorder, op, stack)) return;
  if (plan.trait == TraceTrait::kLeavesGaps && make_as_view(op, stack)) return;
  if (reads_values(plan, *stack) && answer_on_host(*recorder, op, stack)) return;
  if (plan.mutates || plan.draws_random) ++traced_writes;
  if (mutates_hidden(plan, *stack)) return plan.hidden_mutation->declared.handle().callBoxed(stack);
  refuse_draw_with_gaps(op, plan, *stack);
  if (record_sparse_gradient(*recorder, op, plan, stack)) return;
  if (resolve_lazy_view(*recorder, plan, stack)) return;
  if (is_taken_apart(plan)) refuse_dtypes_as_eager(op, plan, *stack);
  // The inner operators of a composite pass here themselves, one by one, as the calls that autograd knows.
  if (plan.is_composite) return call_composite(op, plan, below, stack);
  refuse_written_without_history(op, plan, *stack);
  read_own_histories(*recorder, plan, *stack);
  if (!plan.writes.empty() && write_by_strides(*recorder, op, plan, stack)) return;
  Parts::Call parts(*recorder, op, plan, *stack);
  call_in_front(*recorder, op, plan, below, stack);
  parts.finish(*stack);
}

// LibTorch makes tensors of the host's data, as torch.tensor() does, where it excludes the key of its own fake tensors.
bool wants_real_tensors() { return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Fake); }

void fake_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const OperatorPlan& plan = plan_for(op);
  if (wants_real_tensors()) return redispatch_below(op, plan, keys, stack);
  if (OnMeta::is_on()) return run_inner_meta_kernel(op, plan, keys, stack);
  Recorder* recorder = Recorder::current();
  if (recorder == nullptr && Shadow::current() != nullptr) {
    return Shadow::current()->call_below(op, plan, keys, stack);
  }
  if (any_tensor(*stack, plan, is_plain_meta)) {
    return check_on_meta(op, plan, stack);
  }
  DIPTYCH_CHECK(recorder != nullptr,
                "[trace] {} got a tensor that escaped from a trace that has ended; return it from the traced function "
                "instead of storing it outside",
                c10::toString(op.operator_name()));
  refuse_unsupported(*recorder, op, plan, *stack);
  recorder->record(op, plan, stack);
}

}  // namespace

void link_dispatch_kernels() { register_new_recording_kernels(); }

}  // namespace diptych::detail

TORCH_LIBRARY_IMPL(_, DeferredInit, m) {
  static_assert(diptych::detail::kFrontKey == c10::DispatchKey::DeferredInit);
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&diptych::detail::front_kernel>());
}

// The fallback is for operators that no trace has met in front.
TORCH_LIBRARY_IMPL(_, CustomRNGKeyId, m) {
  static_assert(diptych::detail::kFakeKey == c10::DispatchKey::CustomRNGKeyId);
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&diptych::detail::fake_kernel>());
  diptych::detail::register_recording_kernels(
      c10::KernelFunction::makeFromBoxedFunction<&diptych::detail::fake_kernel>());
}

// Graphs that are parsed may name it before a decomposition does.
TORCH_LIBRARY_FRAGMENT(diptych, m) {
  (void)m;
  diptych::detail::register_checked_values();
}

TORCH_LIBRARY_IMPL(aten, FuncTorchVmapMode, m) {
  for (const char* const name : diptych::detail::kDrawsWithoutRule) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&diptych::detail::draw_into_a_copy>());
  }
}
