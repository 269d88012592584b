// How a higher-order operator, which has no entry in the dispatcher, gets into the graph.
#include <ATen/EmptyTensor.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "diptych/trace/dispatch_keys.h"
#include "diptych/trace/recorder.h"

namespace diptych::detail {

bool is_tracing() {
  return Recorder::current() != nullptr && c10::impl::tls_local_dispatch_key_set().included_.has(kFakeKey);
}

std::vector<at::Tensor> Recorder::record_hop(Node node, const std::vector<TensorMeta>& results) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  node.provenance = provenance();
  node.grad_enabled = records_gradients();
  std::vector<std::optional<TensorMeta>> metas(results.begin(), results.end());
  node.returns.assign(results.size(), -1);
  graph_.add_node(std::move(node), std::move(metas));
  const Node& added = graph_.nodes().back();
  std::vector<at::Tensor> stand_ins;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto sizes = results[i].size_hints();
    const auto strides = results[i].stride_hints();
    const ResultShape shape{c10::DimVector(sizes), c10::DimVector(strides), 0, results[i].dtype};
    const auto storage_size = at::detail::computeStorageNbytes(sizes, strides, /*itemsize_bytes=*/1);
    stand_ins.push_back(at::functionalization::impl::to_functional_tensor(
        make_fake(shape, static_cast<int64_t>(storage_size), results[i].device, id_, added.outputs[i])));
    look_dense(stand_ins.back());
  }
  remember_forward(added);
  return stand_ins;
}

}  // namespace diptych::detail
