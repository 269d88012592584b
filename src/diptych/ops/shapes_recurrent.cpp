// Shapes of the LSTM layer that oneDNN runs on the CPU. Only oneDNN knows the size of its workspace, so this number is
// learned by running the real kernel once for each configuration, and remembered.
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <mutex>

#include "diptych/ops/shapes_table.h"

namespace diptych::detail {
namespace {

struct LayerSettings {
  bool reverse;
  std::vector<int64_t> batch_sizes;
  int64_t mode, hidden_size, num_layers;
  bool has_biases, bidirectional, batch_first, train;
};

at::Tensor zeros_like_meta(const at::Tensor& meta) {
  return at::zeros(meta.sizes(), at::TensorOptions().dtype(meta.dtype()).device(at::kCPU));
}

int64_t run_for_workspace(const std::vector<at::Tensor>& metas, const LayerSettings& layer) {
  std::vector<at::Tensor> real;
  for (const at::Tensor& meta : metas) real.push_back(zeros_like_meta(meta));
  const auto outputs = at::mkldnn_rnn_layer(
      real[0], real[1], real[2], real[3], real[4], real[5], real[6], layer.reverse, layer.batch_sizes, layer.mode,
      layer.hidden_size, layer.num_layers, layer.has_biases, layer.bidirectional, layer.batch_first, layer.train);
  return std::get<3>(outputs).numel();
}

// Bytes of the workspace; the key holds everything that the kernel's choice can depend on.
int64_t workspace_size(const std::vector<at::Tensor>& metas, const LayerSettings& layer) {
  std::vector<int64_t> key = {layer.reverse,    layer.mode,          layer.hidden_size, layer.num_layers,
                              layer.has_biases, layer.bidirectional, layer.batch_first, layer.train};
  key.push_back(static_cast<int64_t>(metas[0].scalar_type()));
  for (const at::Tensor& meta : metas) {
    key.push_back(meta.dim());
    key.insert(key.end(), meta.sizes().begin(), meta.sizes().end());
  }
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, int64_t> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = run_for_workspace(metas, layer);
}

FourTensors rnn_layer(const at::Tensor& input, const at::Tensor& w0, const at::Tensor& w1, const at::Tensor& w2,
                      const at::Tensor& w3, const at::Tensor& hx, const at::Tensor& cx, bool reverse,
                      at::IntArrayRef batch_sizes, int64_t mode, int64_t hidden_size, int64_t num_layers,
                      bool has_biases, bool bidirectional, bool batch_first, bool train) {
  const auto dtype = input.scalar_type();
  const at::Tensor output = meta_empty({input.size(0), input.size(1), hidden_size}, dtype);
  const LayerSettings layer = {reverse,    batch_sizes.vec(), mode,        hidden_size, num_layers,
                               has_biases, bidirectional,     batch_first, train};
  const at::Tensor workspace = meta_empty({workspace_size({input, w0, w1, w2, w3, hx, cx}, layer)}, at::kByte);
  return {output, meta_empty(hx.sizes(), hx.scalar_type()), meta_empty(cx.sizes(), cx.scalar_type()), workspace};
}

using SevenTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
SevenTensors rnn_layer_backward(const at::Tensor& input, const at::Tensor& w0, const at::Tensor& w1,
                                const at::Tensor& w2, const at::Tensor& w3, const at::Tensor& hx, const at::Tensor& cx,
                                const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor& grad,
                                const OptionalTensor& grad_hx, const OptionalTensor& grad_cx, bool, int64_t, int64_t,
                                int64_t, bool has_biases, bool, bool, at::IntArrayRef, bool, const at::Tensor&) {
  if (!is_given(grad) && !is_given(grad_hx) && !is_given(grad_cx)) return {};
  const auto like = [](const at::Tensor& t) { return meta_empty(t.sizes(), t.scalar_type()); };
  return {like(input), like(w0), like(w1), like(w2), like(w3), like(hx), like(cx)};
}

}  // namespace

ShapeRows recurrent_shapes() {
  return {
      typed_row<rnn_layer>("aten::mkldnn_rnn_layer"),
      typed_row<rnn_layer_backward>("aten::mkldnn_rnn_layer_backward"),
  };
}

}  // namespace diptych::detail
