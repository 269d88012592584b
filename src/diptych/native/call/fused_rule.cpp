// How the interpreter runs hop.fused: by the kernel of its body.
#include <memory>

#include "diptych/native/call/fused_call.h"
#include "diptych/native/fusion/fused_node.h"

namespace diptych::detail {

HopKernel fused_rule(const Node& node) {
  return [call = std::make_shared<const FusedCall>(node.subgraphs[0])](std::vector<c10::IValue>&& operands,
                                                                       const RunOptions& options) {
    return call->run(take_tensor_list(operands[0]), options);
  };
}

}  // namespace diptych::detail
