#include "diptych/trace/eager_refusal.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

#include "diptych/ops/tags.h"
#include "diptych/trace/exchange_tensors.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/trace_guard.h"

namespace diptych::detail {
namespace {

using torch::jit::Stack;

bool is_number(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

bool is_small(const at::Tensor& tensor) {
  constexpr int64_t kMany = 4096;
  return !tensor.defined() || tensor.numel() <= kMany;
}

// Whether a kernel may read or write beside the memory of operands that are made up. Kernels trust whole numbers beside
// operands of another dtype (indices, lengths, what a library packs into bytes), and those for LibTorch's own use trust
// what other kernels gave: sizes that fit each other, and workspaces.
bool may_trust_operands(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  if (plan.is_pointwise || plan.num_out > 0) return false;
  bool has_whole = false, has_others = false, has_large = false;
  any_tensor(stack, plan, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return false;
    const bool is_whole = c10::isIntegralType(tensor.scalar_type(), /*includeBool=*/false);
    has_whole = has_whole || is_whole;
    has_others = has_others || !is_whole;
    has_large = has_large || !is_small(tensor);
    return false;
  });
  const std::string_view full = op.schema().name(), name = full.substr(full.find("::") + 2);
  const bool is_internal = name.starts_with('_') || name.find("backward") != std::string_view::npos;
  return (has_whole && has_others) || (is_internal && (has_whole || has_large)) || name.starts_with("mkldnn");
}

// Whether the kernel can be asked: it is LibTorch's, draws from no generator of the caller's, and its results have the
// same sizes whatever the elements are.
bool may_be_asked(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  if (!plan.is_native || plan.changes_storage || reads_values(plan, stack)) return false;
  if (may_trust_operands(op, plan, stack)) return false;
  const auto first = stack.end() - static_cast<std::ptrdiff_t>(plan.takes_tensor.size());
  if (std::any_of(first, stack.end(), [](const c10::IValue& argument) { return argument.isGenerator(); })) return false;
  const bool is_strange = any_tensor(stack, plan, [](const at::Tensor& tensor) {
    return tensor.defined() && (!tensor.device().is_cpu() || tensor.layout() != c10::kStrided);
  });
  return !is_strange;
}

// What tells calls apart whose dtypes a kernel may judge in different ways; empty where there is nothing to ask.
std::string key_of(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  std::string key;
  at::ScalarType first = at::kFloat;
  bool is_usual = true, is_first = true;
  any_tensor(stack, plan, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) {
      key += '-';
      return false;
    }
    const auto dtype = tensor.scalar_type();
    if (is_first) first = dtype;
    is_usual = is_usual && dtype == first && (dtype == at::kFloat || dtype == at::kDouble);
    is_first = false;
    key += {static_cast<char>(dtype), static_cast<char>(tensor.dim()), is_number(tensor) ? 'n' : 't'};
    key += {tensor.numel() == 0 ? '0' : '1', tensor.requires_grad() ? 'g' : '.'};
    return false;
  });
  if (is_usual && plan.num_out == 0) return {};
  const auto* name = &op.schema();
  key.append(reinterpret_cast<const char*>(&name), sizeof(name));
  return key;
}

// A tensor of the size and strides, or a smaller one, which keeps what the kernel costs low and sizes that are equal
// equal. It is filled by a copy, since fill_ lacks dtypes that other operators have, such as bcomplex32.
at::Tensor filled_like(const at::Tensor& tensor, int64_t filling) {
  const at::Tensor element = at::scalar_tensor(filling, at::TensorOptions(tensor.scalar_type()));
  auto sizes = tensor.sizes().vec();
  int64_t count = 1;
  if (is_small(tensor)) {
    for (int64_t i = 0; i < tensor.dim(); ++i) count += std::max<int64_t>(sizes[i] - 1, 0) * tensor.stride(i);
    return at::empty({count}, element.options()).copy_(element).as_strided(sizes, tensor.strides());
  }
  constexpr int64_t kFew = 8;
  for (auto& size : sizes) size = std::min(size, kFew);
  return at::empty(sizes, element.options()).copy_(element);
}

Stack example_of(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  Stack example(stack.end() - static_cast<std::ptrdiff_t>(plan.takes_tensor.size()), stack.end());
  const int64_t filling = plan.draws_random || has_tag(Op(op), Tag::kPointwise) ? 1 : 0;
  exchange_each(plan, example, [&](const at::Tensor& tensor) -> at::Tensor {
    if (!tensor.defined() || (is_number(tensor) && !is_stand_in(tensor))) return tensor;
    at::Tensor made = filled_like(tensor, filling);
    if (is_number(tensor)) made.unsafeGetTensorImpl()->set_wrapped_number(true);
    return plan.is_composite ? made.set_requires_grad(tensor.requires_grad()) : made;
  });
  return example;
}

// Runs the kernel; what composites call depends on whether gradients are recorded.
void run(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  const bool records = plan.is_composite && c10::GradMode::is_enabled();
  const KeepDefaultGenerator keep;
  const PauseTraceGuard real;
  const c10::impl::ExcludeDispatchKeyGuard no_levels(
      c10::DispatchKeySet({c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode, c10::DispatchKey::Python}));
  Stack example;
  {
    const c10::NoGradGuard no_grad;
    example = example_of(op, plan, stack);
  }
  const c10::AutoGradMode grad_mode(records);
  op.callBoxed(&example);
}

// Whether an error is about dtypes, and not about elements, which are not those of the call.
bool is_about_dtypes(const c10::Error& error, const OperatorPlan& plan, const Stack& stack) {
  constexpr std::string_view kWords[] = {"dtype",          "scalar type", "scalar_type", "not implemented for",
                                         "result type",    "data type",   "but found",   "does not support",
                                         "floating point", "bool tensor", "complex",     "same type"};
  const std::string_view words = error.what_without_backtrace();
  const auto is_named = [&](const at::Tensor& tensor) {
    return tensor.defined() && words.find(c10::toString(tensor.scalar_type())) != std::string_view::npos;
  };
  return any_tensor(stack, plan, is_named) ||
         std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view part) { return words.find(part) != std::string_view::npos; });
}

}  // namespace

void refuse_dtypes_as_eager(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& stack) {
  if (plan.is_view) return;
  const std::string key = key_of(op, plan, stack);
  if (key.empty() || !may_be_asked(op, plan, stack)) return;
  static auto* mutex = new std::mutex();
  static auto* taken = new std::unordered_set<std::string>();
  {
    const std::lock_guard<std::mutex> lock(*mutex);
    if (taken->contains(key)) return;
  }
  try {
    run(op, plan, stack);
  } catch (const c10::Error& error) {
    if (is_about_dtypes(error, plan, stack)) throw;
  }
  const std::lock_guard<std::mutex> lock(*mutex);
  taken->insert(key);
}

bool is_taken_by_eager(const c10::OperatorHandle& op, const OperatorPlan& plan, const Stack& arguments) {
  if (!may_be_asked(op, plan, arguments)) return false;
  run(op, plan, arguments);
  return !any_tensor(arguments, plan, [](const at::Tensor& tensor) { return !is_small(tensor); });
}

}  // namespace diptych::detail
