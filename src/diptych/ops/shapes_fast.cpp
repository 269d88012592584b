// Shapes of the most frequent operators of training steps, computed from the arguments without making a tensor: a Meta
// kernel, above all its TensorIterator, costs many times as much. Each function takes only inputs for which the result
// is simple (one dtype, strides that TensorIterator keeps) and declines all others, so results equal those of the Meta
// kernels.
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/TensorUtils.h>
#include <c10/core/WrapDimMinimal.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

bool is_plain_float(const at::Tensor& tensor) { return c10::isFloatingType(tensor.scalar_type()); }

// The result of at::empty_like.
bool give_like(ResultShape& result, const at::Tensor& self, at::ScalarType dtype) {
  if (self.is_non_overlapping_and_dense()) return give_strided(result, self.sizes(), self.strides(), dtype);
  return give_strided(result, self.sizes(), at::infer_dense_strides(self.sizes(), self.strides()), dtype);
}

// A view of the first argument.
bool give_view(ResultShape& result, const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides) {
  result.is_view_of_first = true;
  result.offset = self.storage_offset();
  return give_strided(result, sizes, strides, self.scalar_type());
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

bool give_binary(ResultShape& result, const at::Tensor& a, const at::Tensor& b, at::ScalarType dtype) {
  if (a.sizes() == b.sizes()) return give_pointwise(result, {a, b}, dtype);
  if (!has_canonical_strides(a) || !has_canonical_strides(b)) return false;
  if (broadcasts_into(b, a)) return give_empty(result, a.sizes(), dtype);
  return broadcasts_into(a, b) && give_empty(result, b.sizes(), dtype);
}

// Operators whose first two arguments are tensors of one float type.
bool float_binary(Arguments arguments, ResultShape& result) {
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  return a.dtype() == b.dtype() && is_plain_float(a) && give_binary(result, a, b, a.scalar_type());
}

bool comparison(Arguments arguments, ResultShape& result) {
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  return a.dtype() == b.dtype() && !a.is_complex() && give_binary(result, a, b, at::kBool);
}

bool float_unary(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  return is_plain_float(self) && give_pointwise(result, {self}, self.scalar_type());
}

bool is_real(const c10::IValue& scalar) { return scalar.isInt() || scalar.isDouble() || scalar.isBool(); }

// A tensor and a number: the number is a broadcast operand, so only canonical strides come out unchanged.
template <bool kCompare>
bool with_scalar(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  if (!std::all_of(arguments.begin() + 1, arguments.end(), is_real)) return false;
  if (!is_plain_float(self) || !has_canonical_strides(self)) return false;
  return give_empty(result, self.sizes(), kCompare ? at::kBool : self.scalar_type());
}

// Expanded tensors, which the backward of a mean divides, are worth a TensorIterator: Python's Meta kernels for them
// spend a second on imports.
template <bool kCompare>
bool with_scalar_or_expanded(const c10::OperatorHandle& op, c10::Stack& stack) {
  if (call_quick<&with_scalar<kCompare>>(op, stack)) return true;
  const size_t count = op.schema().arguments().size();
  const Arguments arguments(stack.data() + (stack.size() - count), count);
  const at::Tensor& self = arguments[0].toTensor();
  if (!std::all_of(arguments.begin() + 1, arguments.end(), is_real)) return false;
  if (!is_plain_float(self) || self.is_non_overlapping_and_dense()) return false;
  const auto dtype = kCompare ? at::kBool : self.scalar_type();
  const at::Tensor number = meta_empty(std::vector<int64_t>(), dtype);
  c10::IValue result = meta_pointwise({self, number}, dtype);
  stack.resize(stack.size() - count);
  stack.push_back(std::move(result));
  return true;
}

template <bool kCompare>
ShapeRow scalar_row(std::string_view name) {
  return {name, &with_scalar_or_expanded<kCompare>, 0, &with_scalar<kCompare>};
}

bool keeps_format(const c10::IValue& memory_format) {
  return memory_format.isNone() || memory_format.toMemoryFormat() == at::MemoryFormat::Preserve;
}

bool clone(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  return keeps_format(arguments[1]) && give_like(result, self, self.scalar_type());
}

// zeros_like, ones_like and _to_copy: a tensor, its new options from the second argument on, the memory format last.
bool like_with_options(Arguments arguments, ResultShape& result) {
  const c10::IValue& dtype = arguments[1];
  const c10::IValue& layout = arguments[2];
  if (!keeps_format(arguments.back()) || !(layout.isNone() || layout.toLayout() == at::kStrided)) return false;
  const at::Tensor& self = arguments[0].toTensor();
  return give_like(result, self, dtype.isNone() ? self.scalar_type() : dtype.toScalarType());
}

bool mm(Arguments arguments, ResultShape& result) {
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  const bool fits = a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0) && a.dtype() == b.dtype();
  return fits && give_empty(result, {a.size(0), b.size(1)}, a.scalar_type());
}

bool addmm(Arguments arguments, ResultShape& result) {
  const at::Tensor& bias = arguments[0].toTensor();
  const bool fits = mm(arguments.slice(1), result) && bias.dim() == 1 && bias.size(0) == result.sizes[1];
  return fits && bias.scalar_type() == result.dtype;
}

// A reduction of floats over given dimensions, without a dtype argument.
bool sum(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  if (!is_plain_float(self) || !arguments[1].isIntList() || !arguments[3].isNone() || self.dim() == 0) return false;
  at::DimVector sizes(self.sizes());
  const auto dims = arguments[1].toDimVector();
  for (const int64_t dim : dims) {
    int64_t& size = sizes[c10::maybe_wrap_dim(dim, self.dim())];
    if (size == -1) return false;  // named twice
    size = -1;
  }
  if (dims.empty()) return false;
  if (arguments[2].toBool()) {
    std::replace(sizes.begin(), sizes.end(), int64_t{-1}, int64_t{1});
  } else {
    sizes.erase(std::remove(sizes.begin(), sizes.end(), -1), sizes.end());
  }
  return give_empty(result, sizes, self.scalar_type());
}

bool view(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  if (!arguments[1].isIntList()) return false;
  const auto sizes = at::infer_size_dv(arguments[1].toDimVector(), self.numel());
  const auto strides = at::detail::computeStride(self.sizes(), self.strides(), sizes);
  return strides && give_view(result, self, sizes, *strides);
}

bool swap_dimensions(const at::Tensor& self, int64_t first, int64_t second, ResultShape& result) {
  give_view(result, self, self.sizes(), self.strides());
  if (self.dim() == 0) return true;
  first = c10::maybe_wrap_dim(first, self.dim());
  second = c10::maybe_wrap_dim(second, self.dim());
  std::swap(result.sizes[first], result.sizes[second]);
  std::swap(result.strides[first], result.strides[second]);
  return true;
}

bool transpose(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  return self.dim() > 0 && swap_dimensions(self, arguments[1].toInt(), arguments[2].toInt(), result);
}

bool t(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  return self.dim() <= 2 && swap_dimensions(self, 0, self.dim() < 2 ? 0 : 1, result);
}

}  // namespace

ShapeRows fast_shapes() {
  return {
      quick_row<&addmm>("aten::addmm"),
      quick_row<&mm>("aten::mm"),
      quick_row<&sum>("aten::sum.dim_IntList"),
      quick_row<&view>("aten::view"),
      quick_row<&t>("aten::t"),
      quick_row<&transpose>("aten::transpose.int"),
      quick_row<&clone>("aten::clone"),
      quick_row<&like_with_options>("aten::zeros_like"),
      quick_row<&like_with_options>("aten::ones_like"),
      quick_row<&like_with_options>("aten::_to_copy"),
      quick_row<&float_binary>("aten::add.Tensor"),
      quick_row<&float_binary>("aten::sub.Tensor"),
      quick_row<&float_binary>("aten::mul.Tensor"),
      quick_row<&float_binary>("aten::div.Tensor"),
      quick_row<&float_binary>("aten::maximum"),
      quick_row<&float_binary>("aten::minimum"),
      quick_row<&float_binary>("aten::gelu_backward"),
      quick_row<&float_binary>("aten::silu_backward"),
      quick_row<&float_binary>("aten::tanh_backward"),
      quick_row<&float_binary>("aten::sigmoid_backward"),
      quick_row<&float_binary>("aten::threshold_backward"),
      quick_row<&comparison>("aten::eq.Tensor"),
      quick_row<&comparison>("aten::ne.Tensor"),
      quick_row<&comparison>("aten::lt.Tensor"),
      quick_row<&comparison>("aten::le.Tensor"),
      quick_row<&comparison>("aten::gt.Tensor"),
      quick_row<&comparison>("aten::ge.Tensor"),
      quick_row<&float_unary>("aten::neg"),
      quick_row<&float_unary>("aten::exp"),
      quick_row<&float_unary>("aten::log"),
      quick_row<&float_unary>("aten::sin"),
      quick_row<&float_unary>("aten::cos"),
      quick_row<&float_unary>("aten::tanh"),
      quick_row<&float_unary>("aten::sigmoid"),
      quick_row<&float_unary>("aten::sqrt"),
      quick_row<&float_unary>("aten::rsqrt"),
      quick_row<&float_unary>("aten::reciprocal"),
      quick_row<&float_unary>("aten::silu"),
      quick_row<&float_unary>("aten::gelu"),
      scalar_row<false>("aten::add.Scalar"),
      scalar_row<false>("aten::sub.Scalar"),
      scalar_row<false>("aten::rsub.Scalar"),
      scalar_row<false>("aten::mul.Scalar"),
      scalar_row<false>("aten::div.Scalar"),
      scalar_row<false>("aten::pow.Tensor_Scalar"),
      scalar_row<true>("aten::eq.Scalar"),
      scalar_row<true>("aten::ne.Scalar"),
      scalar_row<true>("aten::lt.Scalar"),
      scalar_row<true>("aten::le.Scalar"),
      scalar_row<true>("aten::gt.Scalar"),
      scalar_row<true>("aten::ge.Scalar"),
  };
}

}  // namespace diptych::detail
