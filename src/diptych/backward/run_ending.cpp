#include "diptych/backward/run_ending.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <unordered_map>

#include "diptych/backward/run_key.h"

namespace diptych::detail {

void hand_out_gradients(std::vector<RunCall>& calls, const std::vector<at::Tensor>& leaves) {
  std::unordered_map<const c10::TensorImpl*, int> index_of;
  for (size_t i = 0; i < leaves.size(); ++i) {
    index_of.emplace(leaves[i].unsafeGetTensorImpl(), static_cast<int>(i));
  }
  for (RunCall& call : calls) {
    if (!accumulates(*call.node)) continue;
    const auto& accumulation = static_cast<const torch::autograd::AccumulateGrad&>(*call.node);
    const auto found = index_of.find(accumulation.variable.unsafeGetTensorImpl());
    if (found == index_of.end()) continue;
    call.needed = false;
    call.captures = {{0, found->second}};
  }
}

}  // namespace diptych::detail
