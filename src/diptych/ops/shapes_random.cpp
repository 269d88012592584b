// Shapes of random operators that have no C++ Meta kernel.
#include <ATen/ops/result_type.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

using OptionalGenerator = std::optional<at::Generator>;

TwoTensors native_dropout(const at::Tensor& input, double, std::optional<bool>) {
  // The kernel makes no mask of bools for an empty input.
  return {meta_like(input), meta_like(input, input.numel() == 0 ? input.scalar_type() : at::kBool)};
}

at::Tensor native_dropout_backward(const at::Tensor& grad, const at::Tensor& mask, double) {
  const auto product = at::result_type(grad, mask);
  const auto usual = c10::typeMetaToScalarType(at::get_default_dtype());
  const bool is_integral = c10::isIntegralType(product, /*includeBool=*/true);
  return meta_pointwise({grad, mask}, is_integral ? usual : product);  // times a number that is a double
}

at::Tensor multinomial(const at::Tensor& self, int64_t num_samples, bool, const OptionalGenerator&) {
  auto sizes = self.sizes().vec();
  TORCH_CHECK(!sizes.empty() && sizes.size() <= 2, "prob_dist must be 1 or 2 dim");
  sizes.back() = num_samples;
  return meta_empty(sizes, at::kLong);
}

at::Tensor contiguous_sample(const at::Tensor& self, const OptionalGenerator&) {
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor binomial(const at::Tensor& count, const at::Tensor&, const OptionalGenerator&) {
  return meta_empty(count.sizes(), count.scalar_type());
}

at::Tensor standard_gamma_grad(const at::Tensor& self, const at::Tensor&) {
  return meta_empty(self.sizes(), self.scalar_type());
}

at::Tensor dirichlet_grad(const at::Tensor& x, const at::Tensor&, const at::Tensor&) {
  return meta_empty(x.sizes(), x.scalar_type());
}

at::Tensor rrelu_with_noise(const at::Tensor& self, const at::Tensor&, const at::Scalar&, const at::Scalar&, bool,
                            const OptionalGenerator&) {
  return meta_empty(self.sizes(), self.scalar_type());
}

TwoTensors rrelu_with_noise_functional(const at::Tensor& self, const at::Tensor& noise, const at::Scalar&,
                                       const at::Scalar&, bool, const OptionalGenerator&) {
  return {meta_like(self), meta_like(noise)};
}

at::Tensor randperm(int64_t count, OptionalDtype dtype, std::optional<at::Layout>, std::optional<at::Device>,
                    std::optional<bool>) {
  TORCH_CHECK(count >= 0, "n must be non-negative, got", count);
  return meta_empty({count}, dtype.value_or(at::kLong));
}

at::Tensor randperm_generator(int64_t count, const OptionalGenerator&, OptionalDtype dtype,
                              std::optional<at::Layout> layout, std::optional<at::Device> device,
                              std::optional<bool> pinned) {
  return randperm(count, dtype, layout, device, pinned);
}

}  // namespace

ShapeRows random_shapes() {
  return {
      typed_row<native_dropout>("aten::native_dropout"),
      typed_row<native_dropout_backward>("aten::native_dropout_backward"),
      typed_row<multinomial>("aten::multinomial"),
      typed_row<contiguous_sample>("aten::poisson"),
      typed_row<contiguous_sample>("aten::_standard_gamma"),
      typed_row<contiguous_sample>("aten::_sample_dirichlet"),
      typed_row<binomial>("aten::binomial"),
      typed_row<standard_gamma_grad>("aten::_standard_gamma_grad"),
      typed_row<dirichlet_grad>("aten::_dirichlet_grad"),
      typed_row<randperm>("aten::randperm"),
      typed_row<randperm_generator>("aten::randperm.generator"),
      typed_row<rrelu_with_noise>("aten::rrelu_with_noise"),
      typed_row<rrelu_with_noise_functional>("aten::rrelu_with_noise_functional"),
  };
}

}  // namespace diptych::detail
