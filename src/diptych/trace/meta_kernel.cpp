#include "diptych/trace/meta_kernel.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "diptych/base/error_words.h"
#include "diptych/trace/stack_tensors.h"

namespace diptych::detail {
namespace {

// A kernel for all devices may choose its code by the device, and have none for meta tensors: that of conj_physical_.
bool has_no_code_for_meta(const c10::Error& error) {
  return std::string_view(error.what_without_backtrace()).starts_with("DispatchStub: unsupported device type");
}

// What an operator in place returns is what it writes to, whose shape stays.
void run_or_return_self(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack) {
  const size_t begin = stack->size() - plan.takes_tensor.size();
  const c10::IValue self = plan.takes_tensor.empty() ? c10::IValue() : (*stack)[begin];
  try {
    plan.meta_kernel->callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::Meta), stack);
  } catch (const c10::Error& error) {
    const auto& returns = op.schema().returns();
    const bool is_in_place = plan.mutates && returns.size() == 1 && plan.writes[0] && self.isTensor();
    if (!is_in_place || !has_no_code_for_meta(error)) throw;
    stack->resize(begin);
    stack->push_back(self);
  }
}

}  // namespace

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
    return run_or_return_self(op, plan, stack);
  }
  redispatch_below(op, plan, keys, stack);
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
  } catch (const c10::Error& error) {
    if (!has_no_code_for_meta(error)) throw;
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
