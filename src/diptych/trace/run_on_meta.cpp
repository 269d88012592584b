#include "diptych/trace/run_on_meta.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/alias.h>

#include "diptych/base/check.h"
#include "diptych/base/error_words.h"
#include "diptych/trace/eager_refusal.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/location.h"
#include "diptych/trace/meta_kernel.h"
#include "diptych/trace/numbers_of_libraries.h"
#include "diptych/trace/shape_by_example.h"

namespace diptych::detail {
namespace {

at::Tensor meta_number(at::ScalarType dtype) {
  at::Tensor meta = at::detail::empty_strided_meta({}, {}, dtype);
  meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

// Whether a tensor is a number of the caller's that was wrapped as a tensor. A stand-in is not: wrapping it for
// functionalization loses the mark.
bool is_known_number(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_wrapped_number() && !is_stand_in(tensor) && !tensor.is_meta();
}

void exchange_for_meta(Recorder& recorder, torch::jit::Stack& stack, const OperatorPlan& plan) {
  const auto meta_of = [&](const at::Tensor& tensor) -> at::Tensor {
    if (!tensor.defined() || is_known_number(tensor)) return tensor;
    const at::Tensor& meta = as_fake(recorder.stand_in(tensor))->meta();
    if (plan.trait != TraceTrait::kReadsResolved || !meta.is_conj()) return meta;
    const at::Tensor resolved = at::alias(meta);  // as Recorder::record() has resolved the value
    resolved._set_conj(false);
    return resolved;
  };
  exchange_each(plan, stack, meta_of);
  if (plan.device_argument < 0) return;
  stack[stack.size() - plan.takes_tensor.size() + static_cast<size_t>(plan.device_argument)] = c10::Device(c10::kMeta);
}

// Numbers among the arguments that end the stack, with their places.
using Numbers = c10::SmallVector<std::pair<size_t, at::Tensor>, 1>;

Numbers exchange_numbers(torch::jit::Stack& stack, size_t begin) {
  Numbers numbers;
  for (size_t i = begin; i < stack.size(); ++i) {
    auto& argument = stack[i];
    if (!argument.isTensor() || !argument.toTensor().defined() || !is_known_number(argument.toTensor())) continue;
    numbers.emplace_back(i, argument.toTensor());
    argument = meta_number(argument.toTensor().scalar_type());
  }
  return numbers;
}

// Note [Numbers among tensors]: a number in the place of a tensor is a CPU tensor with a mark, by which types are
// promoted as for numbers. Shape functions and C++ kernels take it as a meta tensor with that mark. Python kernels lose
// the mark, or refuse two devices; for LibTorch's own operators the CPU kernel is run instead, with the number itself.
MetaRun run_kernels(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack) {
  const Numbers numbers = exchange_numbers(*stack, stack->size() - plan.takes_tensor.size());
  if (plan.shape != nullptr && plan.shape(op, *stack)) return MetaRun::kDone;
  const bool is_of_python = plan.has_python_meta_kernel && !numbers.empty();
  MetaRun run = MetaRun::kNoKernel;
  if (plan.has_meta_kernel && !is_of_python) run = run_meta_kernel(op, plan.meta_kernel, stack);
  if (run != MetaRun::kNoKernel) return run;
  for (const auto& [i, number] : numbers) (*stack)[i] = number;
  return is_of_python && !plan.is_native ? run_meta_kernel(op, plan.meta_kernel, stack) : run;
}

// As run_kernels(); what a kernel for shapes refuses is refused as eager does, by class and words.
MetaRun run_kernels_as_eager(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack,
                             const torch::jit::Stack& given) {
  try {
    return run_kernels(op, plan, stack);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    if (!is_taken_by_eager(op, plan, given)) throw;
    throw_user_error(
        fmt::format("[trace] {} has a kernel for shapes that refuses what its own kernel takes: {}; call it outside "
                    "the traced function",
                    with_place(op.operator_name()), words_of(error)));
  }
}

// The kernel of a library's operator that stands in for one for shapes, since it is there for all devices. It may read
// memory, which a meta tensor lacks.
MetaRun run_kernels_of_library(const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack,
                               bool may_ask, const torch::jit::Stack& given) {
  if (plan.is_native) return run_kernels_as_eager(op, plan, stack, given);
  if (op.hasKernelForDispatchKey(c10::DispatchKey::Meta)) return run_kernels(op, plan, stack);
  try {
    return run_kernels(op, plan, stack);
  } catch (const std::exception& error) {
    if (may_ask) return MetaRun::kNeedsValues;
    const std::string words = words_of(error);
    if (words.find("meta tensor") == std::string::npos) throw;
    throw_user_error(
        fmt::format("[trace] {} has no fake kernel, and its own kernel can't run on tensors without "
                    "elements, as values are not known here: {}; register one for meta tensors (in Python "
                    "with register_fake()), or call it outside the traced function",
                    with_place(op.operator_name()), words));
  }
}

}  // namespace

// LibTorch's own operators that have no kernel for shapes do not depend on values, as far as they are not known to; of
// an operator of a library this is unknown.
bool run_on_meta(Recorder& recorder, const c10::OperatorHandle& op, const OperatorPlan& plan, torch::jit::Stack* stack,
                 c10::Device device) {
  const bool may_ask =
      !plan.is_native && recorder.phase() == Phase::kForward && recorder.asked_values().may_ask() && plan.num_out == 0;
  const size_t begin = stack->size() - plan.takes_tensor.size();
  if (plan.check != nullptr) plan.check(c10::ArrayRef<c10::IValue>(stack->data() + begin, plan.takes_tensor.size()));
  const torch::jit::Stack given(stack->begin() + static_cast<std::ptrdiff_t>(begin), stack->end());
  const OnMeta on_meta;
  exchange_for_meta(recorder, *stack, plan);
  const MetaRun run = run_kernels_of_library(op, plan, stack, may_ask, given);
  if (run == MetaRun::kDone) return true;
  if (may_ask) {
    stack->resize(begin);
    stack->insert(stack->end(), given.begin(), given.end());
    return false;
  }
  refuse_unknown_numbers(op, plan);
  DIPTYCH_CHECK(run != MetaRun::kNeedsValues,
                "[trace] {} has no fake kernel that tells the sizes of its results, and values are not known here; "
                "register one for meta tensors (in Python with register_fake()), or call it outside the traced "
                "function",
                with_place(op.operator_name()));
  run_shape_by_example(op, stack, device);
  return true;
}

}  // namespace diptych::detail
