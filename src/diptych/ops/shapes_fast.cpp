// Fast paths for operators that training steps are full of. Most of their Meta kernels build a TensorIterator, which
// costs several times what making the result does. Each path takes only the inputs for which the result is plain to see
// (same dtype, strides that TensorIterator hands through) and declines all others, so results equal the Meta kernels'.
#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

bool is_plain_float(at::ScalarType dtype) { return c10::isFloatingType(dtype); }

const at::Tensor& tensor_at(c10::Stack& stack, size_t from_first, size_t count) {
  return stack[stack.size() - count + from_first].toTensor();
}

void replace(c10::Stack& stack, size_t count, at::Tensor result) {
  stack.resize(stack.size() - count);
  stack.emplace_back(std::move(result));
}

// Whether the strides are exactly those of a new contiguous tensor, also in dimensions of size 1, and nothing is empty:
// then broadcasting a smaller operand of the same kind into it cannot change the order of dimensions.
bool has_canonical_strides(const at::Tensor& self) {
  int64_t expected = 1;
  for (int64_t i = self.dim() - 1; i >= 0; --i) {
    if (self.size(i) == 0 || self.stride(i) != expected) return false;
    expected *= self.size(i);
  }
  return true;
}

bool broadcasts_into(const at::Tensor& small, const at::Tensor& large) {
  const int64_t shift = large.dim() - small.dim();
  if (shift < 0) return false;
  for (int64_t i = 0; i < small.dim(); ++i) {
    if (small.size(i) != 1 && small.size(i) != large.size(i + shift)) return false;
  }
  return true;
}

at::Tensor binary_result(const at::Tensor& a, const at::Tensor& b, at::ScalarType dtype) {
  if (a.sizes() == b.sizes()) return meta_pointwise_shortcut({a, b}, dtype);
  if (!has_canonical_strides(a) || !has_canonical_strides(b)) return at::Tensor();
  if (broadcasts_into(b, a)) return meta_empty(a.sizes(), dtype);
  if (broadcasts_into(a, b)) return meta_empty(b.sizes(), dtype);
  return at::Tensor();
}

// Operators whose first two arguments are tensors of one float type; kArguments is how many arguments there are in all.
template <size_t kArguments>
bool float_binary(const c10::OperatorHandle&, c10::Stack& stack) {
  const at::Tensor& a = tensor_at(stack, 0, kArguments);
  const at::Tensor& b = tensor_at(stack, 1, kArguments);
  if (a.dtype() != b.dtype() || !is_plain_float(a.scalar_type())) return false;
  at::Tensor result = binary_result(a, b, a.scalar_type());
  if (!result.defined()) return false;
  replace(stack, kArguments, std::move(result));
  return true;
}

template <size_t kArguments>
bool comparison(const c10::OperatorHandle&, c10::Stack& stack) {
  const at::Tensor& a = tensor_at(stack, 0, kArguments);
  const at::Tensor& b = tensor_at(stack, 1, kArguments);
  if (a.dtype() != b.dtype() || a.is_complex()) return false;
  at::Tensor result = binary_result(a, b, at::kBool);
  if (!result.defined()) return false;
  replace(stack, kArguments, std::move(result));
  return true;
}

template <size_t kArguments>
bool float_unary(const c10::OperatorHandle&, c10::Stack& stack) {
  const at::Tensor& self = tensor_at(stack, 0, kArguments);
  if (!is_plain_float(self.scalar_type())) return false;
  at::Tensor result = meta_pointwise_shortcut({self}, self.scalar_type());
  if (!result.defined()) return false;
  replace(stack, kArguments, std::move(result));
  return true;
}

bool is_real(const c10::IValue& scalar) { return scalar.isInt() || scalar.isDouble() || scalar.isBool(); }

// A tensor and a number: the number is a broadcast operand, so only canonical strides come out unchanged.
template <size_t kArguments, bool kCompare>
bool with_scalar(const c10::OperatorHandle&, c10::Stack& stack) {
  const at::Tensor& self = tensor_at(stack, 0, kArguments);
  for (size_t i = 1; i < kArguments; ++i) {
    if (!is_real(stack[stack.size() - kArguments + i])) return false;
  }
  if (!is_plain_float(self.scalar_type()) || !has_canonical_strides(self)) return false;
  replace(stack, kArguments, meta_empty(self.sizes(), kCompare ? at::kBool : self.scalar_type()));
  return true;
}

bool keeps_format(const c10::IValue& memory_format) {
  return memory_format.isNone() || memory_format.toMemoryFormat() == at::MemoryFormat::Preserve;
}

bool clone(const c10::OperatorHandle&, c10::Stack& stack) {
  if (!keeps_format(stack.back())) return false;
  replace(stack, 2, meta_like(tensor_at(stack, 0, 2)));
  return true;
}

// zeros_like, ones_like and _to_copy: a tensor, its new options from the second argument on, the memory format last.
template <size_t kArguments>
bool like_with_options(const c10::OperatorHandle&, c10::Stack& stack) {
  const c10::IValue& dtype = stack[stack.size() - kArguments + 1];
  const c10::IValue& layout = stack[stack.size() - kArguments + 2];
  if (!keeps_format(stack.back()) || !(layout.isNone() || layout.toLayout() == at::kStrided)) return false;
  const at::Tensor& self = tensor_at(stack, 0, kArguments);
  replace(stack, kArguments, meta_like(self, dtype.isNone() ? self.scalar_type() : dtype.toScalarType()));
  return true;
}

bool addmm(const c10::OperatorHandle&, c10::Stack& stack) {
  const at::Tensor& bias = tensor_at(stack, 0, 5);
  const at::Tensor& a = tensor_at(stack, 1, 5);
  const at::Tensor& b = tensor_at(stack, 2, 5);
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && bias.dim() == 1 &&
                    bias.size(0) == b.size(1) && a.dtype() == b.dtype() && a.dtype() == bias.dtype();
  if (!fits) return false;
  replace(stack, 5, meta_empty({a.size(0), b.size(1)}, a.scalar_type()));
  return true;
}

}  // namespace

ShapeRows fast_shapes() {
  return {
      {"aten::addmm", &addmm},
      {"aten::clone", &clone},
      {"aten::zeros_like", &like_with_options<6>},
      {"aten::ones_like", &like_with_options<6>},
      {"aten::_to_copy", &like_with_options<7>},
      {"aten::add.Tensor", &float_binary<3>},
      {"aten::sub.Tensor", &float_binary<3>},
      {"aten::mul.Tensor", &float_binary<2>},
      {"aten::div.Tensor", &float_binary<2>},
      {"aten::maximum", &float_binary<2>},
      {"aten::minimum", &float_binary<2>},
      {"aten::gelu_backward", &float_binary<3>},
      {"aten::silu_backward", &float_binary<2>},
      {"aten::tanh_backward", &float_binary<2>},
      {"aten::sigmoid_backward", &float_binary<2>},
      {"aten::threshold_backward", &float_binary<3>},
      {"aten::eq.Tensor", &comparison<2>},
      {"aten::ne.Tensor", &comparison<2>},
      {"aten::lt.Tensor", &comparison<2>},
      {"aten::le.Tensor", &comparison<2>},
      {"aten::gt.Tensor", &comparison<2>},
      {"aten::ge.Tensor", &comparison<2>},
      {"aten::neg", &float_unary<1>},
      {"aten::exp", &float_unary<1>},
      {"aten::log", &float_unary<1>},
      {"aten::sin", &float_unary<1>},
      {"aten::cos", &float_unary<1>},
      {"aten::tanh", &float_unary<1>},
      {"aten::sigmoid", &float_unary<1>},
      {"aten::sqrt", &float_unary<1>},
      {"aten::rsqrt", &float_unary<1>},
      {"aten::reciprocal", &float_unary<1>},
      {"aten::silu", &float_unary<1>},
      {"aten::gelu", &float_unary<2>},
      {"aten::add.Scalar", &with_scalar<3, false>},
      {"aten::sub.Scalar", &with_scalar<3, false>},
      {"aten::rsub.Scalar", &with_scalar<3, false>},
      {"aten::mul.Scalar", &with_scalar<2, false>},
      {"aten::div.Scalar", &with_scalar<2, false>},
      {"aten::pow.Tensor_Scalar", &with_scalar<2, false>},
      {"aten::eq.Scalar", &with_scalar<2, true>},
      {"aten::ne.Scalar", &with_scalar<2, true>},
      {"aten::lt.Scalar", &with_scalar<2, true>},
      {"aten::le.Scalar", &with_scalar<2, true>},
      {"aten::gt.Scalar", &with_scalar<2, true>},
      {"aten::ge.Scalar", &with_scalar<2, true>},
  };
}

}  // namespace diptych::detail
