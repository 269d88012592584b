#include "diptych/trace/shape_by_example.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/base/error.h"
#include "diptych/ops/tags.h"
#include "diptych/trace/fake_tensor.h"
#include "diptych/trace/generator_watch.h"
#include "diptych/trace/location.h"
#include "diptych/trace/operator_plan.h"

namespace diptych::detail {
namespace {

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

class KeepDefaultGenerator {
 public:
  KeepDefaultGenerator() : generator_(at::detail::getDefaultCPUGenerator()) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
  }
  ~KeepDefaultGenerator() { set_state_unseen(generator_, state_); }
  KeepDefaultGenerator(const KeepDefaultGenerator&) = delete;
  KeepDefaultGenerator& operator=(const KeepDefaultGenerator&) = delete;

 private:
  at::Generator generator_;
  at::Tensor state_;
};

}  // namespace

void run_shape_by_example(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::Device device) {
  const KeepDefaultGenerator keep;
  const size_t begin = stack->size() - op.schema().arguments().size();
  // A pointwise operator may divide by an element, so it gets ones. Others may use it as an index, and 0 is a valid
  // one.
  const int64_t filling = has_tag(Op(op), Tag::kPointwise) ? 1 : 0;
  change_tensors(*stack, begin, [&](const at::Tensor& meta) {
    // A number among the tensors is passed with its value: see Note [Numbers among tensors].
    if (!meta.is_meta()) return meta;
    return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(device)).fill_(filling);
  });
  const int device_argument = plan_for(op).device_argument;
  if (device_argument >= 0) (*stack)[begin + device_argument] = device;
  try {
    op.callBoxed(stack);
  } catch (const c10::Error& error) {
    detail::throw_user_error(
        fmt::format("[trace] Diptych does not know the shape of {}, and its kernel refused zeros: {}; register a shape "
                    "function, or call it outside the traced function",
                    c10::toString(op.operator_name()), error.what_without_backtrace()));
  }
  change_tensors(*stack, begin, [&](const at::Tensor& real) {
    DIPTYCH_CHECK(real.layout() == c10::kStrided && !real.is_quantized(),
                  "[trace] {} returns a sparse or quantized tensor, which a graph can't hold; call it outside the "
                  "traced function",
                  with_place(op.operator_name()));
    return meta_like(real);
  });
}

}  // namespace diptych::detail
