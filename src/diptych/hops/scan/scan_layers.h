// dp::scan_layers: a stack of equal modules as one scan. A header of its own because torch's module header is slow to
// read.
#pragma once
#include "diptych/hops/scan/scan.h"
#include "diptych/tree/module.h"

namespace diptych {
namespace detail {

/// The parameters and buffers of one layer.
struct LayerTensors {
  std::vector<at::Tensor> tensors;
  std::vector<std::string> paths;
  uint64_t structure = 0;                ///< of its submodules and training flags
  std::optional<std::string> transform;  ///< why it must run in eager
};

/// scan_layers() on flat tensors. `forward`: the first layer's; `in_order`: runs all layers, one after the other.
std::vector<at::Tensor> scan_layers_flat(const FlatFunction& forward, const FlatFunction& in_order, const Flattened& x,
                                         const std::vector<LayerTensors>& layers);

/// Hashes what two layers must agree on: everything but their identity.
struct LayerHasher : TreeHasher {
  template <class MakeOwner>
  void identity(const Path&, const void*, MakeOwner&&) {}
};

template <class Layer>
LayerTensors tensors_of_layer(const Layer& layer) {
  const Flattened flat = diptych::flatten(layer, "layer");
  LayerHasher hasher;
  visit_leaves(layer, Path(), hasher);
  return {flat.tensors, flat.spec.tensor_paths(), hasher.hash(), transform_of(flat)};
}

}  // namespace detail

/// Applies x = layer->forward(x) for each of `layers` in order and returns the last x. Only the first layer is
/// captured: the others' parameters and buffers are stacked and take the place of its own, so capturing costs one layer
/// however many there are. Gradients land on each layer's own parameters; buffers that forward changes, such as
/// BatchNorm's, are each updated. `layers`: a sequence of modules or holders of one type, with parameters and buffers
/// of the same names, sizes and dtypes, whose forward does the same but for these. x: any tree of tensors, whose sizes
/// and dtypes a layer keeps. Memory: one copy of all parameters while the forward and the backward run.
/// Errors: UserError names the first layer that differs, by path; as scan().
template <class Layers, class X>
X scan_layers(const Layers& layers, const X& x) {
  std::vector<detail::LayerTensors> tensors;
  for (const auto& layer : layers) tensors.push_back(detail::tensors_of_layer(layer));
  if (tensors.empty()) return x;
  const Flattened carry = diptych::flatten(x, "carry");
  auto first = *std::begin(layers);  // a handle; from a const holder we would get only a const module
  const auto step = [&](X& value) {
    X next = first->forward(value);
    detail::check_structure("scan_layers", "the layer's result", carry.spec, diptych::flatten(next, "carry").spec);
    return next;
  };
  const auto in_order = [&](X& value) {
    X current = value;
    for (const auto& layer : layers) {
      auto handle = layer;
      current = handle->forward(current);
      detail::check_structure("scan_layers", "the layer's result", carry.spec, diptych::flatten(current, "carry").spec);
    }
    return current;
  };
  std::shared_ptr<X> example;
  const auto flat = detail::make_flat<X>(step, example, x);
  const auto loop = detail::make_flat<X>(in_order, example, x);
  return unflatten(X(x), detail::scan_layers_flat(flat, loop, carry, tensors));
}

}  // namespace diptych
