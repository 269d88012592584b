#include "diptych/ops/infer_metas.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "diptych/base/check.h"
#include "diptych/ops/dispatch_keys.h"
#include "diptych/ops/hidden_kernels.h"
#include "diptych/ops/shapes.h"
#include "diptych/ops/tags.h"

namespace diptych::detail {
namespace {

/// Turns operands into a stack of meta tensors and constants, remembering what the results need.
class MetaCall {
 public:
  MetaCall(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  c10::Stack stack(c10::ArrayRef<Operand> operands) {
    const auto& arguments = op_.schema().arguments();
    DIPTYCH_ASSERT(operands.size() == arguments.size(), "{} takes {} operands, got {}", op_.name(), arguments.size(),
                   operands.size());
    c10::Stack stack;
    for (size_t i = 0; i < operands.size(); ++i) stack.push_back(to_ivalue(operands[i], *arguments[i].real_type()));
    // A factory without a device would allocate a real tensor.
    for (size_t i = 0; i < operands.size(); ++i) {
      if (stack[i].isNone() && arguments[i].name() == "device" && !device_) stack[i] = c10::Device(c10::kMeta);
    }
    return stack;
  }
  c10::Device device() const { return given_device_.value_or(device_.value_or(c10::kCPU)); }
  bool any_requires_grad() const { return requires_grad_; }

 private:
  at::Tensor meta_tensor(Value value) {
    const auto& meta = graph_.meta(value);
    DIPTYCH_ASSERT(meta.is_static(), "{} has an operand of dynamic size {}", op_.name(), type_string(meta));
    if (!device_) device_ = meta.device;
    requires_grad_ = requires_grad_ || meta.requires_grad;
    return at::empty_strided(meta.size_hints(), meta.stride_hints(), at::TensorOptions(meta.dtype).device(c10::kMeta));
  }

  c10::IValue list(const ValueList& values, const c10::Type& type) {
    c10::List<at::Tensor> tensors;
    c10::List<std::optional<at::Tensor>> optional_tensors;
    for (const Value value : values) {
      tensors.push_back(value ? meta_tensor(value) : at::Tensor());
      optional_tensors.push_back(value ? std::optional(tensors.get(tensors.size() - 1)) : std::nullopt);
    }
    const bool holds_optionals =
        type.expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::OptionalType;
    return holds_optionals ? c10::IValue(std::move(optional_tensors)) : c10::IValue(std::move(tensors));
  }

  static at::Tensor wrapped_tensor(const at::Scalar& number, at::ScalarType dtype) {
    auto tensor = at::detail::scalar_tensor_static(number, dtype, c10::Device(at::kCPU));
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return tensor;
  }

  c10::IValue to_ivalue(const Operand& operand, const c10::Type& type) {
    if (const auto* value = std::get_if<Value>(&operand)) {
      if (*value) return meta_tensor(*value);
      return type.kind() == c10::TypeKind::OptionalType ? c10::IValue() : c10::IValue(at::Tensor());
    }
    if (const auto* values = std::get_if<ValueList>(&operand)) return list(*values, type);
    if (const auto* wrapped = std::get_if<WrappedNumber>(&operand)) {
      return wrapped_tensor(wrapped->number, wrapped->dtype);
    }
    const bool takes_tensor = type.isSubtypeOf(*c10::OptionalType::ofTensor());
    if (const auto* size = std::get_if<SizeExpr>(&operand)) {
      return takes_tensor ? c10::IValue(wrapped_tensor(size->hint(), at::kLong)) : c10::IValue(size->hint());
    }
    if (const auto* number = std::get_if<SizeNumber>(&operand)) {
      return takes_tensor ? c10::IValue(wrapped_tensor(number->hint(), at::kDouble)) : c10::IValue(number->hint());
    }
    if (const auto* sizes = std::get_if<Sizes>(&operand)) {
      c10::List<int64_t> numbers;
      for (const auto& size : *sizes) numbers.push_back(size.hint());
      return numbers;
    }
    const auto& constant = std::get<c10::IValue>(operand);
    if (!constant.isDevice()) return constant;
    given_device_ = constant.toDevice();
    return c10::Device(c10::kMeta);
  }

  const Graph& graph_;
  const Op& op_;
  std::optional<c10::Device> device_;
  std::optional<c10::Device> given_device_;
  bool requires_grad_ = false;
};

void run_shape_rule(const Op& op, c10::Stack& stack) {
  const BelowTraceGuard guard;  // a trace that is on must not record what kernels call
  const c10::OperatorHandle& handle = op.handle();
  const auto rule = find_shape_function(handle);
  if (rule != nullptr && rule(handle, stack)) return;
  const auto* kernel = has_tag(op, Tag::kNative) ? find_meta_kernel(handle, /*with_composites=*/true) : nullptr;
  if (kernel == nullptr) return handle.callBoxed(stack);
  kernel->callBoxed(handle, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
}

}  // namespace

InferredResults infer_metas(const Graph& graph, const Op& op, c10::ArrayRef<Operand> operands, bool grad_enabled) {
  MetaCall call(graph, op);
  auto stack = call.stack(operands);
  run_shape_rule(op, stack);
  InferredResults results;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return results.metas.push_back(std::nullopt);
    auto meta = TensorMeta::of(tensor);
    meta.device = call.device();
    const bool differentiable = at::isFloatingType(meta.dtype) || at::isComplexType(meta.dtype);
    meta.requires_grad = grad_enabled && differentiable && call.any_requires_grad();
    results.metas.push_back(std::move(meta));
  };
  for (const auto& result : stack) {
    if (result.isTensor()) {
      results.returns.push_back(-1);
      add(result.toTensor());
    } else if (result.isTensorList()) {
      const auto tensors = result.toTensorVector();
      results.returns.push_back(static_cast<int32_t>(tensors.size()));
      for (const auto& tensor : tensors) add(tensor);
    } else {
      results.returns.push_back(-2);
    }
  }
  return results;
}

}  // namespace diptych::detail
