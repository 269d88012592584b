#include "diptych/trace/shape_by_example.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/base/check.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/location.h"
#include "diptych/trace/operator_plan.h"

namespace diptych::detail {
namespace {

using torch::jit::Stack;

// Applies `change` to every tensor among the last `count` entries of the stack, lists included.
template <class Change>
void change_tensors(torch::jit::Stack& stack, size_t begin, const Change& change) {
  for (size_t i = begin; i < stack.size(); ++i) {
    if (stack[i].isTensor()) {
      if (stack[i].toTensor().defined()) stack[i] = change(stack[i].toTensor());
    } else if (stack[i].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : stack[i].toTensorVector())
        list.push_back(tensor.defined() ? change(tensor) : tensor);
      stack[i] = std::move(list);
    } else if (stack[i].isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : optional_tensors(stack[i])) {
        list.push_back(tensor && tensor->defined() ? std::optional(change(*tensor)) : std::nullopt);
      }
      stack[i] = std::move(list);
    }
  }
}

// Runs the operator on tensors that hold `filling` everywhere.
Stack run_on(const c10::OperatorHandle& op, Stack given, c10::Device device, int64_t filling) {
  change_tensors(given, 0, [&](const at::Tensor& meta) {
    // A number among the tensors is passed with its value: see Note [Numbers among tensors].
    if (!meta.is_meta()) return meta;
    // fill_ lacks dtypes that other operators have, such as bcomplex32.
    const at::Tensor element = at::scalar_tensor(filling, meta.options().device(device));
    return at::empty_strided(meta.sizes(), meta.strides(), element.options()).copy_(element);
  });
  const int device_argument = plan_for(op).device_argument;
  if (device_argument >= 0) given[static_cast<size_t>(device_argument)] = device;
  op.callBoxed(&given);
  return given;
}

std::vector<std::vector<int64_t>> sizes_of(Stack results) {
  std::vector<std::vector<int64_t>> sizes;
  change_tensors(results, 0, [&](const at::Tensor& result) {
    sizes.push_back(result.sizes().vec());
    return result;
  });
  return sizes;
}

// Whether an operator of a library, of which nothing is known, returns other sizes for ones than for zeros.
bool depends_on_values(const c10::OperatorHandle& op, const Stack& given, c10::Device device, const Stack& results) {
  if (plan_for(op).is_native) return false;
  try {
    return sizes_of(run_on(op, given, device, 1)) != sizes_of(results);
  } catch (const std::exception&) {
    return false;  // ones may be no valid indices
  }
}

}  // namespace

void run_shape_by_example(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device) {
  const KeepDefaultGenerator keep;
  const auto begin = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const Stack given(begin, stack->end());
  stack->erase(begin, stack->end());
  // A pointwise operator may divide by an element, so it gets ones. Others may use it as an index, and 0 is a valid
  // one.
  const int64_t filling = has_tag(Op(op), Tag::kPointwise) ? 1 : 0;
  Stack results;
  try {
    results = run_on(op, given, device, filling);
  } catch (const c10::Error& error) {
    detail::throw_user_error(
        fmt::format("[trace] Diptych does not know the shape of {}, and its kernel refused zeros: {}; register a shape "
                    "function, or call it outside the traced function",
                    c10::toString(op.operator_name()), error.what_without_backtrace()));
  }
  DIPTYCH_CHECK(!depends_on_values(op, given, device, results),
                "[trace] the sizes of its results depend on values that {} gets, which are not known here, and it has "
                "no kernel for meta tensors; call it outside the traced function",
                with_place(op.operator_name()));
  change_tensors(results, 0, [&](const at::Tensor& real) {
    DIPTYCH_CHECK(real.layout() == c10::kStrided && !real.is_quantized(),
                  "[trace] {} returns a sparse or quantized tensor, which a graph can't hold; call it outside the "
                  "traced function",
                  with_place(op.operator_name()));
    return meta_like(real);
  });
  stack->insert(stack->end(), results.begin(), results.end());
}

}  // namespace diptych::detail
