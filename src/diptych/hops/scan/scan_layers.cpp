#include "diptych/hops/scan/scan_layers.h"

#include <ATen/ops/stack.h>

#include "diptych/base/check.h"
#include "diptych/hops/loop_body.h"
#include "diptych/hops/scan/scan_operator.h"
#include "diptych/hops/strides.h"

namespace diptych::detail {
namespace {

using Tensors = std::vector<at::Tensor>;

void check_layer(const LayerTensors& first, const LayerTensors& layer, size_t index) {
  DIPTYCH_CHECK(layer.structure == first.structure && layer.paths == first.paths,
                "[scan_layers] layer {} has other submodules, parameters or training flags than layer 0; pass modules "
                "of the same structure, in the same mode",
                index);
  for (size_t i = 0; i < first.tensors.size(); ++i) {
    const TensorMeta wanted = TensorMeta::of(first.tensors[i]);
    const TensorMeta got = TensorMeta::of(layer.tensors[i]);
    DIPTYCH_CHECK(got.sizes == wanted.sizes && got.dtype == wanted.dtype && got.device == wanted.device &&
                      got.requires_grad == wanted.requires_grad,
                  "[scan_layers] '{}' of layer {} is {}{}, of layer 0 {}{}; pass modules of the same structure",
                  layer.paths[i], index, type_string(contiguous(got)), got.requires_grad ? " grad" : "",
                  type_string(contiguous(wanted)), wanted.requires_grad ? " grad" : "");
  }
}

Tensors stack_layers(const std::vector<LayerTensors>& layers) {
  Tensors stacks;
  for (size_t i = 0; i < layers[0].tensors.size(); ++i) {
    Tensors column;
    for (const LayerTensors& layer : layers) column.push_back(layer.tensors[i]);
    stacks.push_back(at::stack(column));
  }
  return stacks;
}

/// Captures the first layer until it is known which of its tensors it changes; their new values are then stacked.
struct LayerCapture {
  const FlatFunction& forward;
  const Flattened& x;
  const LayerTensors& layer;
  std::vector<size_t> changed = {};
  LoopBody loop = {};

  void run() {
    loop = capture();
    for (const auto& mutation : loop.body->mutations()) {
      const size_t first = x.tensors.size() + loop.buffers.size();
      if (mutation.primal >= first && mutation.primal < first + layer.tensors.size()) {
        changed.push_back(mutation.primal - first);
      }
    }
    if (!changed.empty()) loop = capture();
  }

 private:
  LoopBody capture() const {
    LoopInputs inputs;
    for (size_t i = 0; i < layer.tensors.size(); ++i) {
      inputs.metas.push_back(TensorMeta::of(layer.tensors[i]));
      inputs.paths.push_back(layer.paths[i]);
    }
    inputs.examples = layer.tensors;
    const auto step = [&](const Tensors& stand_ins) {
      const auto parameters = stand_ins.begin() + static_cast<int64_t>(x.tensors.size());
      FlatResult result = forward({stand_ins.begin(), parameters});
      for (const size_t index : changed) {
        result.tensors.push_back(*(parameters + static_cast<int64_t>(index)));
        result.paths.push_back(layer.paths[index]);
      }
      return result;
    };
    return capture_loop_body("scan_layers", step, x, inputs);
  }
};

Tensors captured_layers(const FlatFunction& forward, const Flattened& x, const std::vector<LayerTensors>& layers) {
  for (size_t i = 1; i < layers.size(); ++i) check_layer(layers[0], layers[i], i);
  LayerCapture capture{forward, x, layers[0]};
  capture.run();
  const LoopBody& loop = capture.loop;
  const size_t num_slices = layers[0].tensors.size();
  const auto hop = make_scan(loop.body, x.tensors.size() + loop.buffers.size(), num_slices,
                             static_cast<int64_t>(layers.size()), /*reverse=*/false);
  Tensors operands = x.tensors;
  for (at::Tensor& buffer : loop.buffer_operands()) operands.push_back(std::move(buffer));
  for (const at::Tensor& stack : stack_layers(layers)) operands.push_back(stack);
  operands.insert(operands.end(), loop.body->free_variables().begin(), loop.body->free_variables().end());
  Tensors results = loop.write_buffers(call(hop, std::move(operands)), x.tensors.size());
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < capture.changed.size(); ++i) {
    const Tensors rows = results[x.tensors.size() + i].unbind(0);
    for (size_t k = 0; k < layers.size(); ++k) at::Tensor(layers[k].tensors[capture.changed[i]]).copy_(rows[k]);
  }
  results.resize(x.tensors.size());
  return results;
}

}  // namespace

Tensors scan_layers_flat(const FlatFunction& forward, const FlatFunction& in_order, const Flattened& x,
                         const std::vector<LayerTensors>& layers) {
  const auto transformed =
      std::find_if(layers.begin(), layers.end(), [](const LayerTensors& layer) { return layer.transform.has_value(); });
  return captured_or_eager(
      "scan_layers", {&x}, [&] { return captured_layers(forward, x, layers); },
      [&] { return in_order(x.tensors).tensors; }, transformed == layers.end() ? std::nullopt : transformed->transform);
}

}  // namespace diptych::detail
