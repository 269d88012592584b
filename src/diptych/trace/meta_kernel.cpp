#include "diptych/trace/meta_kernel.h"

#include <string_view>

#include "diptych/base/error.h"
#include "diptych/trace/location.h"
#include "diptych/trace/stack_tensors.h"

namespace diptych::detail {

void run_inner_meta_kernel(const c10::OperatorHandle& op, const OperatorPlan& plan, c10::DispatchKeySet keys,
                           torch::jit::Stack* stack) {
  const auto is_meta = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.key_set().has(c10::DispatchKey::Meta);
  };
  const auto makes_meta = [&] {
    if (plan.device_argument < 0) return false;
    const auto& device = (*stack)[stack->size() - plan.takes_tensor.size() + static_cast<size_t>(plan.device_argument)];
    return device.isDevice() && device.toDevice().is_meta();
  };
  if (plan.meta_kernel != nullptr && (any_tensor(*stack, plan, is_meta) || makes_meta())) {
    return plan.meta_kernel->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kFakeKey), stack);
}

bool run_meta_kernel(const c10::OperatorHandle& op, const c10::KernelFunction* kernel, torch::jit::Stack* stack) {
  const size_t num_arguments = op.schema().arguments().size();
  const size_t begin = stack->size() - num_arguments;
  const torch::jit::Stack arguments(stack->end() - static_cast<int64_t>(num_arguments), stack->end());
  try {
    constexpr c10::DispatchKeySet kMeta(c10::DispatchKey::Meta);
    if (kernel != nullptr) {
      kernel->callBoxed(op, kMeta, stack);
    } else {
      op.redispatchBoxed(kMeta, stack);
    }
    return true;
  } catch (const c10::NotImplementedError&) {
    stack->resize(begin);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
    return false;
  } catch (const std::exception& error) {
    // Torch registers a kernel that throws this for an operator that is written in Python and has no fake kernel.
    const std::string_view words = error.what();
    if (words.find("no fake impl registered") == std::string_view::npos) throw;
  }
  detail::throw_user_error(
      fmt::format("[trace] {} has no fake kernel, so the sizes of its results are unknown; register one for meta "
                  "tensors (in Python with register_fake()), or call it outside the traced function",
                  with_place(op.operator_name())));
}

}  // namespace diptych::detail
