// Shapes of layer, group and batch normalization and their gradients.
#include <array>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

// Statistics of half inputs with float parameters are kept in float, all others in the input's dtype.
at::ScalarType stats_dtype(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias) {
  const bool is_half = input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16;
  const auto is_float = [](const OptionalTensor& t) { return is_given(t) && t->scalar_type() == at::kFloat; };
  return is_half && (is_float(weight) || is_float(bias)) ? at::kFloat : input.scalar_type();
}

at::Tensor like_if(bool wanted, const OptionalTensor& parameter) {
  return wanted && is_given(parameter) ? meta_contiguous_like(*parameter) : at::Tensor();
}

ThreeTensors native_layer_norm(const at::Tensor& input, at::IntArrayRef normalized_shape, const OptionalTensor& weight,
                               const OptionalTensor& bias, double) {
  const auto sizes = input.sizes();
  TORCH_CHECK(sizes.size() >= normalized_shape.size() &&
                  sizes.slice(sizes.size() - normalized_shape.size()).equals(normalized_shape),
              "Given normalized_shape=", normalized_shape, ", but got input of size", sizes);
  auto stat_sizes = sizes.vec();
  std::fill(stat_sizes.end() - static_cast<int64_t>(normalized_shape.size()), stat_sizes.end(), 1);
  const at::Tensor mean = meta_empty(stat_sizes, stats_dtype(input, weight, bias));
  return {meta_empty(sizes, input.scalar_type()), mean, meta_like(mean)};
}

ThreeTensors native_layer_norm_backward(const at::Tensor&, const at::Tensor& input, at::IntArrayRef, const at::Tensor&,
                                        const at::Tensor&, const OptionalTensor& weight, const OptionalTensor& bias,
                                        std::array<bool, 3> mask) {
  const at::Tensor grad_input = mask[0] ? meta_empty(input.sizes(), input.scalar_type()) : at::Tensor();
  return {grad_input, like_if(mask[1], weight), like_if(mask[2], bias)};
}

ThreeTensors native_group_norm(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                               int64_t batch, int64_t, int64_t, int64_t groups, double) {
  const at::Tensor mean = meta_empty({batch, groups}, stats_dtype(input, weight, bias));
  return {meta_like(input, input.suggest_memory_format()), mean, meta_like(mean)};
}

ThreeTensors native_group_norm_backward(const at::Tensor&, const at::Tensor& input, const at::Tensor&,
                                        const at::Tensor&, const OptionalTensor& weight, int64_t, int64_t, int64_t,
                                        int64_t, std::array<bool, 3> mask) {
  const at::Tensor grad_input = mask[0] ? meta_like(input, input.suggest_memory_format()) : at::Tensor();
  return {grad_input, like_if(mask[1], weight), like_if(mask[2], weight)};
}

at::ScalarType batch_stats_dtype(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& mean) {
  return stats_dtype(input, weight, mean);
}

ThreeTensors batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor&,
                              const OptionalTensor& running_mean, const OptionalTensor&, bool training, double,
                              double) {
  const auto dtype = batch_stats_dtype(input, weight, running_mean);
  const int64_t stat_size = training ? input.size(1) : 0;
  return {meta_like(input, input.suggest_memory_format()), meta_empty({stat_size}, dtype),
          meta_empty({stat_size}, dtype)};
}

ThreeTensors batch_norm_no_stats(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                 bool training, double momentum, double epsilon) {
  return batch_norm_legit(input, weight, bias, std::nullopt, std::nullopt, training, momentum, epsilon);
}

ThreeTensors batch_norm_no_training(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                    const at::Tensor& running_mean, const at::Tensor& running_var, double momentum,
                                    double epsilon) {
  return batch_norm_legit(input, weight, bias, running_mean, running_var, /*training=*/false, momentum, epsilon);
}

using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
FiveTensors batch_norm_functional(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                  const at::Tensor& running_mean, const at::Tensor& running_var, bool training,
                                  double momentum, double epsilon) {
  const auto [output, mean, inverse] =
      batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, epsilon);
  return {output, mean, inverse, meta_like(running_mean), meta_like(running_var)};
}

FourTensors batch_norm_with_update(const at::Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                                   const at::Tensor& running_mean, const at::Tensor& running_var, double momentum,
                                   double epsilon) {
  const auto [output, mean, inverse] =
      batch_norm_legit(input, weight, bias, running_mean, running_var, /*training=*/true, momentum, epsilon);
  return {output, mean, inverse, meta_empty({0}, at::kByte)};
}

ThreeTensors batch_norm_gradients(const at::Tensor&, const at::Tensor& input, const OptionalTensor& weight,
                                  const OptionalTensor& running_mean, const OptionalTensor&, const OptionalTensor&,
                                  const OptionalTensor&, bool, double, std::array<bool, 3> mask) {
  const auto dtype = batch_stats_dtype(input, weight, running_mean);
  const auto channels = [&](bool wanted) { return wanted ? meta_empty({input.size(1)}, dtype) : at::Tensor(); };
  const at::Tensor grad_input = mask[0] ? meta_like(input, input.suggest_memory_format()) : at::Tensor();
  return {grad_input, channels(mask[1]), channels(mask[2])};
}

ThreeTensors batch_norm_backward(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& running_mean, const OptionalTensor& running_var,
                                 const OptionalTensor& mean, const OptionalTensor& variance, bool update,
                                 double epsilon, std::array<bool, 3> mask, const at::Tensor&) {
  return batch_norm_gradients(grad, input, weight, running_mean, running_var, mean, variance, update, epsilon, mask);
}

TwoTensors batch_norm_update_stats(const at::Tensor& input, const OptionalTensor& running_mean, const OptionalTensor&,
                                   double) {
  const auto dtype = stats_dtype(input, running_mean, std::nullopt);
  return {meta_empty({input.size(1)}, dtype), meta_empty({input.size(1)}, dtype)};
}

TwoTensors weight_norm(const at::Tensor& direction, const at::Tensor& magnitude, int64_t) {
  const bool widen = magnitude.scalar_type() == at::kBFloat16;
  return {meta_empty(direction.sizes(), direction.scalar_type()),
          meta_empty(magnitude.sizes(), widen ? at::kFloat : magnitude.scalar_type())};
}

TwoTensors weight_norm_backward(const at::Tensor&, const at::Tensor& direction, const at::Tensor& magnitude,
                                const at::Tensor&, int64_t) {
  return {meta_contiguous_like(direction), meta_contiguous_like(magnitude)};
}

}  // namespace

ShapeRows norm_shapes() {
  return {
      typed_row<native_layer_norm>("aten::native_layer_norm"),
      typed_row<native_layer_norm_backward>("aten::native_layer_norm_backward"),
      typed_row<native_group_norm>("aten::native_group_norm"),
      typed_row<native_group_norm_backward>("aten::native_group_norm_backward"),
      typed_row<batch_norm_legit>("aten::native_batch_norm"),
      typed_row<batch_norm_legit>("aten::_native_batch_norm_legit"),
      typed_row<batch_norm_no_stats>("aten::_native_batch_norm_legit.no_stats"),
      typed_row<batch_norm_no_training>("aten::_native_batch_norm_legit_no_training"),
      typed_row<batch_norm_functional>("aten::_native_batch_norm_legit_functional"),
      typed_row<batch_norm_with_update>("aten::_batch_norm_with_update"),
      typed_row<batch_norm_gradients>("aten::native_batch_norm_backward"),
      typed_row<batch_norm_backward>("aten::batch_norm_backward"),
      typed_row<batch_norm_update_stats>("aten::batch_norm_update_stats"),
      typed_row<weight_norm>("aten::_weight_norm_interface"),
      typed_row<weight_norm_backward>("aten::_weight_norm_interface_backward"),
  };
}

}  // namespace diptych::detail
