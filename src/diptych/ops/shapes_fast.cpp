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

bool is_number(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

// The dtype of two tensors of one float type, or of one and a number; none for others.
std::optional<at::ScalarType> common_float(const at::Tensor& a, const at::Tensor& b) {
  if (is_number(a)) return is_number(b) ? std::nullopt : common_float(b, a);
  const bool fits = is_number(b) ? !b.is_complex() : a.dtype() == b.dtype();
  return fits && is_plain_float(a) ? std::optional(a.scalar_type()) : std::nullopt;
}

// Operators whose first two arguments are tensors of one float type, or one and a number.
bool float_binary(Arguments arguments, ResultShape& result) {
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  const auto dtype = common_float(a, b);
  return dtype && give_binary(result, a, b, *dtype);
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

// Numbers are compared with integers and bools, too; the dtypes of other results follow from both operands.
template <bool kCompare>
bool takes_number(const at::Tensor& self) {
  const auto dtype = self.scalar_type();
  return is_plain_float(self) || (kCompare && c10::isIntegralType(dtype, /*includeBool=*/true));
}

// A tensor and a number: the number is a broadcast operand, so only canonical strides come out unchanged.
template <bool kCompare>
bool with_scalar(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  if (!std::all_of(arguments.begin() + 1, arguments.end(), is_real)) return false;
  if (!takes_number<kCompare>(self) || !has_canonical_strides(self)) return false;
  return give_empty(result, self.sizes(), kCompare ? at::kBool : self.scalar_type());
}

Arguments arguments_of(const c10::OperatorHandle& op, const c10::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  return Arguments(stack.data() + (stack.size() - count), count);
}

void replace_arguments(const c10::OperatorHandle& op, c10::Stack& stack, c10::IValue result) {
  stack.resize(stack.size() - op.schema().arguments().size());
  stack.push_back(std::move(result));
}

// Other strides and broadcasts are worth a TensorIterator: Python's Meta kernels, which are used where they are loaded,
// take a hundred times as long, and spend a second on imports.
bool float_binary_by_iterator(const c10::OperatorHandle& op, c10::Stack& stack) {
  if (call_quick<&float_binary>(op, stack)) return true;
  const Arguments arguments = arguments_of(op, stack);
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  const auto dtype = common_float(a, b);
  if (!dtype) return false;
  const auto on_meta = [&](const at::Tensor& x) { return is_number(x) ? meta_empty(x.sizes(), *dtype) : x; };
  const at::Tensor first = on_meta(a), second = on_meta(b);
  replace_arguments(op, stack, meta_pointwise({first, second}, *dtype));
  return true;
}

bool comparison_by_iterator(const c10::OperatorHandle& op, c10::Stack& stack) {
  if (call_quick<&comparison>(op, stack)) return true;
  const Arguments arguments = arguments_of(op, stack);
  const at::Tensor& a = arguments[0].toTensor();
  const at::Tensor& b = arguments[1].toTensor();
  if (is_number(a) || is_number(b) || a.dtype() != b.dtype() || a.is_complex()) return false;
  replace_arguments(op, stack, meta_pointwise({a, b}, at::kBool));
  return true;
}

ShapeRow comparison_row(std::string_view name) { return {name, &comparison_by_iterator, 0, &comparison}; }

ShapeRow binary_row(std::string_view name) { return {name, &float_binary_by_iterator, 0, &float_binary}; }

// The same for expanded tensors, which the backward of a mean divides.
template <bool kCompare>
bool with_scalar_or_expanded(const c10::OperatorHandle& op, c10::Stack& stack) {
  if (call_quick<&with_scalar<kCompare>>(op, stack)) return true;
  const Arguments arguments = arguments_of(op, stack);
  const at::Tensor& self = arguments[0].toTensor();
  if (!std::all_of(arguments.begin() + 1, arguments.end(), is_real)) return false;
  if (!takes_number<kCompare>(self) || self.is_non_overlapping_and_dense()) return false;
  const auto dtype = kCompare ? at::kBool : self.scalar_type();
  const at::Tensor number = meta_empty(std::vector<int64_t>(), dtype);
  replace_arguments(op, stack, meta_pointwise({self, number}, dtype));
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

// A reduction of floats over some dimensions, or all if none are given; a dtype may follow, and is not taken.
bool float_reduction(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  const bool has_dtype = arguments.size() > 3 && !arguments[3].isNone();
  if (!is_plain_float(self) || has_dtype || self.dim() == 0) return false;
  at::DimVector sizes(self.sizes());
  const auto dims = arguments[1].isIntList() ? arguments[1].toDimVector() : at::DimVector();
  for (const int64_t dim : dims) {
    int64_t& size = sizes[c10::maybe_wrap_dim(dim, self.dim())];
    if (size == -1) return false;  // named twice
    size = -1;
  }
  if (dims.empty()) std::fill(sizes.begin(), sizes.end(), -1);
  if (arguments[2].toBool()) {
    std::replace(sizes.begin(), sizes.end(), int64_t{-1}, int64_t{1});
  } else {
    sizes.erase(std::remove(sizes.begin(), sizes.end(), -1), sizes.end());
  }
  return give_empty(result, sizes, self.scalar_type());
}

// The same over all elements: a tensor, then a dtype that is not taken.
bool whole_float_reduction(Arguments arguments, ResultShape& result) {
  const at::Tensor& self = arguments[0].toTensor();
  return is_plain_float(self) && arguments[1].isNone() && give_empty(result, {}, self.scalar_type());
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

constexpr std::string_view kFloatUnary[] = {
    "aten::neg",     "aten::exp",   "aten::log",    "aten::sin",        "aten::cos",    "aten::tanh",
    "aten::sigmoid", "aten::sqrt",  "aten::rsqrt",  "aten::reciprocal", "aten::silu",   "aten::gelu",
    "aten::erf",     "aten::erfc",  "aten::erfinv", "aten::expm1",      "aten::log1p",  "aten::log2",
    "aten::log10",   "aten::exp2",  "aten::tan",    "aten::asin",       "aten::acos",   "aten::atan",
    "aten::sinh",    "aten::cosh",  "aten::asinh",  "aten::acosh",      "aten::atanh",  "aten::floor",
    "aten::ceil",    "aten::trunc", "aten::sign",   "aten::sgn",        "aten::lgamma", "aten::digamma",
};

}  // namespace

ShapeRows fast_shapes() {
  ShapeRows rows = {
      quick_row<&addmm>("aten::addmm"),
      quick_row<&mm>("aten::mm"),
      quick_row<&whole_float_reduction>("aten::sum"),
      quick_row<&whole_float_reduction>("aten::mean"),
      quick_row<&float_reduction>("aten::sum.dim_IntList"),
      quick_row<&float_reduction>("aten::mean.dim"),
      quick_row<&float_reduction>("aten::amax"),
      quick_row<&float_reduction>("aten::amin"),
      quick_row<&view>("aten::view"),
      quick_row<&t>("aten::t"),
      quick_row<&transpose>("aten::transpose.int"),
      quick_row<&clone>("aten::clone"),
      quick_row<&like_with_options>("aten::zeros_like"),
      quick_row<&like_with_options>("aten::ones_like"),
      quick_row<&like_with_options>("aten::_to_copy"),
      binary_row("aten::add.Tensor"),
      binary_row("aten::sub.Tensor"),
      binary_row("aten::mul.Tensor"),
      binary_row("aten::div.Tensor"),
      binary_row("aten::maximum"),
      binary_row("aten::minimum"),
      binary_row("aten::gelu_backward"),
      binary_row("aten::silu_backward"),
      binary_row("aten::tanh_backward"),
      binary_row("aten::sigmoid_backward"),
      quick_row<&float_binary>("aten::threshold_backward"),
      comparison_row("aten::eq.Tensor"),
      comparison_row("aten::ne.Tensor"),
      comparison_row("aten::lt.Tensor"),
      comparison_row("aten::le.Tensor"),
      comparison_row("aten::gt.Tensor"),
      comparison_row("aten::ge.Tensor"),
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
  for (const std::string_view name : kFloatUnary) rows.push_back(quick_row<&float_unary>(name));
  return rows;
}

}  // namespace diptych::detail
