#include "diptych/backends/native/fused_node.h"

#include "diptych/backends/native/fused_call.h"
#include "diptych/graph/hop_attributes.h"
#include "diptych/interpreter/hop_rules.h"
#include "diptych/ops/hop_schemas.h"

namespace diptych::detail {

const HopSchema& fused_schema() {
  static const HopSchema* const known = [] {
    const HopSchema* const added = add_hop_schema("fused(Tensor[] inputs)", {"body"});
    const auto rule = [](const Node& node) -> HopKernel {
      return [call = std::make_shared<const FusedCall>(node.subgraphs[0])](std::vector<c10::IValue>&& operands,
                                                                           const RunOptions& options) {
        return call->run(take_tensor_list(operands[0]), options);
      };
    };
    register_interpreter_rule(*added, rule, HopSizes::kAny);
    return added;
  }();
  return *known;
}

bool is_fused(const Node& node) { return node.op.is_hop() && &node.op.hop() == &fused_schema(); }

bool may_fuse_bodies(const Node& node) {
  return node.op.is_hop() && !is_fused(node) && &node.op.hop() != find_hop_schema("vjp");
}

Node make_fused_node(std::shared_ptr<const Graph> body, const ValueList& inputs) {
  return make_hop_node(fused_schema(), {inputs}, {fused_schema(), {}}, {std::move(body)});
}

}  // namespace diptych::detail
