#include "diptych/trace/meta_kernel.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "diptych/base/error_words.h"
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

// Torch registers kernels that throw these for operators that are written in Python. The second is thrown where a fake
// kernel asks for new_dynamic_size().
MetaRun run_meta_kernel(const c10::OperatorHandle& op, const c10::KernelFunction* kernel, torch::jit::Stack* stack) {
  const size_t num_arguments = op.schema().arguments().size();
  const size_t begin = stack->size() - num_arguments;
  const torch::jit::Stack arguments(stack->end() - static_cast<int64_t>(num_arguments), stack->end());
  MetaRun missing = MetaRun::kNoKernel;
  try {
    constexpr c10::DispatchKeySet kMeta(c10::DispatchKey::Meta);
    if (kernel != nullptr) {
      kernel->callBoxed(op, kMeta, stack);
    } else {
      op.redispatchBoxed(kMeta, stack);
    }
    return MetaRun::kDone;
  } catch (const c10::NotImplementedError&) {
  } catch (const std::exception& error) {
    constexpr std::string_view kWords[] = {"no fake impl registered", "output Tensor with data-dependent shape"};
    const std::string words = words_of(error);
    const auto says = [&](std::string_view part) { return words.find(part) != std::string_view::npos; };
    if (std::none_of(std::begin(kWords), std::end(kWords), says)) throw;
    missing = MetaRun::kNeedsValues;
  }
  stack->resize(begin);
  stack->insert(stack->end(), arguments.begin(), arguments.end());
  return missing;
}

}  // namespace diptych::detail
