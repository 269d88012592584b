// Shapes of activations and other pointwise operators that have no C++ Meta kernel, and of their gradients.
#include <ATen/ops/result_type.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

at::Tensor unary(const at::Tensor& self) { return meta_pointwise({self}, self.scalar_type()); }
at::Tensor hardtanh(const at::Tensor& self, const at::Scalar&, const at::Scalar&) { return meta_like(self); }
at::Tensor hardswish(const at::Tensor& self) { return unary(self); }

at::Tensor binary(const at::Tensor& a, const at::Tensor& b) { return meta_pointwise({a, b}, at::result_type(a, b)); }

at::Tensor hardtanh_backward(const at::Tensor& grad, const at::Tensor& self, const at::Scalar&, const at::Scalar&) {
  return binary(grad, self);
}

at::Tensor prelu_kernel(const at::Tensor& self, const at::Tensor& weight) { return binary(self, weight); }

TwoTensors prelu_kernel_backward(const at::Tensor& grad, const at::Tensor& self, const at::Tensor& weight) {
  const at::Tensor result = meta_pointwise({grad, self, weight}, self.scalar_type());
  return {result, meta_like(result)};
}

// Integers become the default floating type.
at::ScalarType float_dtype(const at::Tensor& self) {
  return c10::isIntegralType(self.scalar_type(), /*includeBool=*/true)
             ? at::typeMetaToScalarType(c10::get_default_dtype())
             : self.scalar_type();
}

at::Tensor logit(const at::Tensor& self, std::optional<double>) { return meta_pointwise({self}, float_dtype(self)); }

// Of complex numbers the kernel makes a new tensor, which it lays out as contiguous.
at::Tensor angle(const at::Tensor& self) {
  if (self.is_complex()) return meta_empty(self.sizes(), c10::toRealValueType(self.scalar_type()));
  return meta_pointwise({self}, float_dtype(self));
}

at::Tensor isnan(const at::Tensor& self) { return meta_pointwise({self}, at::kBool); }

at::Tensor where_self(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  return meta_pointwise({condition, self, other}, at::result_type(self, other));
}

at::Tensor absolute(const at::Tensor& self) {
  const auto dtype = self.scalar_type();
  return meta_pointwise({self}, self.is_complex() ? c10::toRealValueType(dtype) : dtype);
}

at::Tensor nan_to_num(const at::Tensor& self, std::optional<double>, std::optional<double>, std::optional<double>) {
  return meta_like(self);
}

at::Tensor logical_not(const at::Tensor& self) { return meta_pointwise({self}, at::kBool); }
at::Tensor logical(const at::Tensor& a, const at::Tensor& b) { return meta_pointwise({a, b}, at::kBool); }

at::Tensor complex_of(const at::Tensor& a, const at::Tensor& b) {
  return meta_pointwise({a, b}, c10::toComplexType(a.scalar_type()));
}

TwoTensors frexp(const at::Tensor& self) { return {meta_like(self), meta_like(self, at::kInt)}; }

at::Tensor rsub(const at::Tensor& self, const at::Tensor& other, const at::Scalar&) { return binary(other, self); }

at::Tensor scalar_remainder(const at::Scalar& self, const at::Tensor& other) {
  const auto dtype = at::result_type(self, other);
  const at::Tensor number = meta_empty({}, dtype);  // the kernel, too, makes the scalar an operand
  return meta_pointwise({number, other}, dtype);
}

at::Tensor shift_scalar(const at::Tensor& self, const at::Scalar& other) {
  return meta_pointwise({self}, at::result_type(self, other));
}

TwoTensors log_sigmoid_forward(const at::Tensor& self) {
  return {meta_empty(self.sizes(), self.scalar_type()), meta_empty(self.sizes(), self.scalar_type())};
}

at::Tensor log_sigmoid_backward(const at::Tensor& grad, const at::Tensor&, const at::Tensor&) {
  return meta_like(grad);
}

at::Tensor glu_backward(const at::Tensor&, const at::Tensor& self, int64_t) {
  return meta_empty(self.sizes(), self.scalar_type());
}

}  // namespace

ShapeRows activation_shapes() {
  return {
      typed_row<unary>("aten::relu"),
      typed_row<hardtanh>("aten::hardtanh"),
      typed_row<hardtanh_backward>("aten::hardtanh_backward"),
      typed_row<hardswish>("aten::hardswish"),
      typed_row<binary>("aten::hardswish_backward"),
      typed_row<binary>("aten::mish_backward"),
      typed_row<prelu_kernel>("aten::_prelu_kernel"),
      typed_row<prelu_kernel_backward>("aten::_prelu_kernel_backward"),
      typed_row<logit>("aten::logit"),
      typed_row<angle>("aten::angle"),
      typed_row<isnan>("aten::isnan"),
      typed_row<where_self>("aten::where.self"),
      typed_row<absolute>("aten::abs"),
      typed_row<nan_to_num>("aten::nan_to_num"),
      typed_row<unary>("aten::conj_physical"),
      typed_row<logical_not>("aten::logical_not"),
      typed_row<logical>("aten::logical_and"),
      typed_row<logical>("aten::logical_or"),
      typed_row<logical>("aten::logical_xor"),
      typed_row<complex_of>("aten::complex"),
      typed_row<complex_of>("aten::polar"),
      typed_row<frexp>("aten::frexp.Tensor"),
      typed_row<rsub>("aten::rsub.Tensor"),
      typed_row<binary>("aten::floor_divide"),
      typed_row<scalar_remainder>("aten::remainder.Scalar_Tensor"),
      typed_row<shift_scalar>("aten::__lshift__.Scalar"),
      typed_row<shift_scalar>("aten::__rshift__.Scalar"),
      typed_row<binary>("aten::__lshift__.Tensor"),
      typed_row<binary>("aten::__rshift__.Tensor"),
      typed_row<log_sigmoid_forward>("aten::log_sigmoid_forward"),
      typed_row<log_sigmoid_backward>("aten::log_sigmoid_backward"),
      typed_row<glu_backward>("aten::glu_backward"),
  };
}

}  // namespace diptych::detail
