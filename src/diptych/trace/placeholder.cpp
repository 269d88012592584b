#include "diptych/trace/placeholder.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "diptych/trace/fake_tensor.h"

namespace diptych::detail {

at::Tensor make_placeholder(const TensorMeta& meta) {
  const auto sizes = meta.size_hints();
  const auto strides = meta.stride_hints();
  const ResultShape shape{c10::DimVector(sizes), c10::DimVector(strides), 0, meta.dtype};
  const auto storage_size = at::detail::computeStorageNbytes(sizes, strides, /*itemsize_bytes=*/1);
  const at::Tensor leaf =
      detail::make_fake(shape, static_cast<int64_t>(storage_size), meta.device, detail::kNoTrace, Value{});
  if (!meta.requires_grad) return leaf;
  leaf.set_requires_grad(true);
  return detail::make_non_leaf(leaf);
}

at::Tensor make_non_leaf(const at::Tensor& leaf) {
  at::Tensor tensor = leaf.tensor_data();
  const auto node = c10::make_intrusive<torch::autograd::Identity>();
  node->set_next_edges({torch::autograd::impl::gradient_edge(leaf)});
  torch::autograd::set_history(tensor, node);
  return tensor;
}

}  // namespace diptych::detail
