// Shapes of embedding lookups and their gradients.
#include <ATen/WrapDimUtils.h>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

at::Tensor embedding(const at::Tensor& weight, const at::Tensor& indices, int64_t, bool, bool) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  auto sizes = indices.sizes().vec();
  sizes.push_back(weight.size(1));
  return meta_empty(sizes, weight.scalar_type());
}

at::Tensor embedding_dense_backward(const at::Tensor& grad, const at::Tensor&, int64_t num_weights, int64_t, bool) {
  return meta_empty({num_weights, grad.size(-1)}, grad.scalar_type());
}

// A sparse gradient is known by the tensor that it is the gradient of: see Note [Sparse gradients].
at::Tensor embedding_sparse_backward(const at::Tensor& grad, const at::Tensor&, int64_t num_weights, int64_t, bool) {
  return meta_empty({num_weights, grad.size(-1)}, grad.scalar_type());
}

at::Tensor embedding_bag_sparse_backward(const at::Tensor& grad, const at::Tensor&, const at::Tensor&,
                                         const at::Tensor&, const at::Tensor&, int64_t num_weights, bool, int64_t,
                                         const OptionalTensor&, int64_t) {
  return meta_empty({num_weights, grad.size(-1)}, grad.scalar_type());
}

// A dense gradient has a Meta kernel.
bool embedding_bag_backward(const c10::OperatorHandle& /*op*/, c10::Stack& stack) {
  constexpr size_t kNumArguments = 12, kNumWeights = 6, kSparse = 9;
  const size_t begin = stack.size() - kNumArguments;
  if (!stack[begin + kSparse].toBool()) return false;
  const at::Tensor grad = stack[begin].toTensor();
  const int64_t num_weights = stack[begin + kNumWeights].toInt();
  stack.resize(begin);
  stack.emplace_back(meta_empty({num_weights, grad.size(-1)}, grad.scalar_type()));
  return true;
}

at::Tensor gather_sparse_backward(const at::Tensor& self, int64_t, const at::Tensor&, const at::Tensor& grad) {
  return meta_empty(self.sizes(), grad.scalar_type());
}

at::Tensor sparse_coo_tensor(const at::Tensor&, const at::Tensor& values, at::IntArrayRef sizes,
                             std::optional<at::ScalarType>, std::optional<at::Layout>, std::optional<at::Device>,
                             std::optional<bool>, std::optional<bool>) {
  return meta_empty(sizes, values.scalar_type());
}

// Modes of embedding_bag, as ATen numbers them.
constexpr int64_t kSum = 0;
constexpr int64_t kMax = 2;

// The kernel skips the bag map where it can add up without it: its condition is repeated here.
bool is_fast_path(const at::Tensor& weight, const OptionalTensor& per_sample_weights, int64_t padding_index) {
  const auto type = weight.scalar_type();
  const bool known_type = type == at::kFloat || type == at::kHalf || type == at::kByte || type == at::kBFloat16;
  const bool weights_fit = !is_given(per_sample_weights) || per_sample_weights->stride(0) == 1;
  return known_type && weight.stride(1) == 1 && weights_fit && padding_index < 0;
}

FourTensors bag_results(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, int64_t mode,
                        bool fast, int64_t num_bags, int64_t num_sizes) {
  const auto index_type = at::promoteTypes(indices.scalar_type(), offsets.scalar_type());
  const at::Tensor bag_size = meta_empty({num_sizes}, index_type);
  const at::Tensor offset2bag = fast ? meta_empty({0}, index_type) : meta_empty(indices.sizes(), index_type);
  const at::Tensor max_indices =
      mode == kMax ? meta_empty({num_bags, weight.size(1)}, index_type) : meta_like(bag_size);
  return {meta_empty({num_bags, weight.size(1)}, weight.scalar_type()), offset2bag, bag_size, max_indices};
}

FourTensors embedding_bag(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool,
                          int64_t mode, bool, const OptionalTensor& per_sample_weights, bool include_last_offset,
                          int64_t padding_index) {
  const int64_t num_bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const bool fast = mode == kSum && is_fast_path(weight, per_sample_weights, padding_index);
  return bag_results(weight, indices, offsets, mode, fast, num_bags, num_bags);
}

// Without a backward to come, sums do not fill in the bags' sizes and leave that tensor as long as the offsets.
FourTensors embedding_bag_forward_only(const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets,
                                       bool, int64_t mode, bool, const OptionalTensor& per_sample_weights,
                                       bool include_last_offset, int64_t padding_index) {
  const int64_t num_bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const bool fast = mode == kSum && is_fast_path(weight, per_sample_weights, padding_index);
  return bag_results(weight, indices, offsets, mode, fast, num_bags, mode == kSum ? offsets.size(0) : num_bags);
}

at::Tensor embedding_bag_dense_backward(const at::Tensor& grad, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                        const at::Tensor&, int64_t num_weights, bool, int64_t, const OptionalTensor&,
                                        int64_t) {
  return meta_empty({num_weights, grad.size(1)}, grad.scalar_type());
}

at::Tensor embedding_bag_weights_backward(const at::Tensor& grad, const at::Tensor&, const at::Tensor& indices,
                                          const at::Tensor&, const at::Tensor&, int64_t, int64_t) {
  return meta_empty({indices.size(0)}, grad.scalar_type());
}

}  // namespace

ShapeRows embedding_shapes() {
  return {
      typed_row<embedding>("aten::embedding"),
      typed_row<embedding_dense_backward>("aten::embedding_dense_backward"),
      typed_row<embedding_sparse_backward>("aten::embedding_sparse_backward"),
      {"aten::_embedding_bag_backward", embedding_bag_backward},
      typed_row<embedding_bag_sparse_backward>("aten::_embedding_bag_sparse_backward"),
      typed_row<gather_sparse_backward>("aten::_gather_sparse_backward"),
      typed_row<sparse_coo_tensor>("aten::_sparse_coo_tensor_unsafe"),
      typed_row<embedding_bag>("aten::_embedding_bag"),
      typed_row<embedding_bag_forward_only>("aten::_embedding_bag_forward_only"),
      typed_row<embedding_bag_dense_backward>("aten::_embedding_bag_dense_backward"),
      typed_row<embedding_bag_weights_backward>("aten::_embedding_bag_per_sample_weights_backward"),
  };
}

}  // namespace diptych::detail
